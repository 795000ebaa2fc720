// Starts `vde lsp` in each folder of the workspace, and shows the texts that its commands return.

import { existsSync } from "node:fs";
import { join } from "node:path";
import * as vscode from "vscode";
import { ExecuteCommandRequest, LanguageClient } from "vscode-languageclient/node";
import type { DynamicFeature, LanguageClientOptions, StaticFeature } from "vscode-languageclient/node";

const SCHEME = "vde";
const clients = new Map<string, LanguageClient>();
const shown = new Map<string, string>();
const changed = new vscode.EventEmitter<vscode.Uri>();

/** A client that registers no commands: VS Code refuses a second folder's commands of the same name. */
class Client extends LanguageClient {
  registerFeature(feature: StaticFeature | DynamicFeature<unknown>): void {
    const type = "registrationType" in feature ? feature.registrationType.method : "";
    if (type !== ExecuteCommandRequest.method) super.registerFeature(feature);
  }
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      onDidChange: changed.event,
      provideTextDocumentContent: (uri) => shown.get(uri.path) ?? "",
    }),
    vscode.commands.registerCommand("vde.restart", restart),
    vscode.commands.registerCommand("vde.plan", (uri?: string) => ask("vde.plan", "Plan", uri)),
    vscode.commands.registerCommand("vde.run", (uri?: string, ...at: number[]) =>
      ask("vde.run", "Rows", uri, ...at),
    ),
    vscode.commands.registerCommand("vde.showPlan", () => ask("vde.plan", "Plan")),
    vscode.commands.registerCommand("vde.showLineage", () => ask("vde.lineage", "Lineage")),
    vscode.commands.registerCommand("vde.runHere", runHere),
    vscode.workspace.onDidChangeWorkspaceFolders(async (event) => {
      await Promise.all(event.removed.map(stop));
      await Promise.all(event.added.map(start));
    }),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("vde")) await restart();
    }),
  );
  await Promise.all((vscode.workspace.workspaceFolders ?? []).map(start));
}

export async function deactivate(): Promise<void> {
  await Promise.all([...clients.values()].map((client) => client.stop()));
}

async function start(folder: vscode.WorkspaceFolder): Promise<void> {
  const settings = vscode.workspace.getConfiguration("vde", folder);
  const options: LanguageClientOptions = {
    workspaceFolder: folder,
    documentSelector: ["sql", "python", "yaml"].map((language) => ({
      scheme: "file",
      language,
      pattern: `${folder.uri.fsPath}/**/*`,
    })),
    synchronize: {
      fileEvents: vscode.workspace.createFileSystemWatcher(
        new vscode.RelativePattern(folder, "**/*.{sql,py,csv,yaml,yml,toml}"),
      ),
    },
    initializationOptions: { environment: settings.get<string>("environment") },
  };
  const run = { command: program(folder), args: ["lsp"], options: { cwd: folder.uri.fsPath } };
  const client = new Client("vde", `vde (${folder.name})`, run, options);
  clients.set(folder.uri.toString(), client);
  try {
    await client.start();
  } catch (error) {
    const hint = "set vde.command to the program of the environment that has vde-dagster[editor]";
    void vscode.window.showErrorMessage(`vde lsp did not start: ${String(error)}; ${hint}`);
  }
}

async function stop(folder: vscode.WorkspaceFolder): Promise<void> {
  const client = clients.get(folder.uri.toString());
  clients.delete(folder.uri.toString());
  if (client?.isRunning()) await client.stop();
}

async function restart(): Promise<void> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  await Promise.all(folders.map(stop));
  await Promise.all(folders.map(start));
}

function program(folder: vscode.WorkspaceFolder): string {
  const said = vscode.workspace.getConfiguration("vde", folder).get<string>("command");
  const own = process.platform === "win32" ? ".venv/Scripts/vde.exe" : ".venv/bin/vde";
  const inFolder = join(folder.uri.fsPath, own);
  return said || (existsSync(inFolder) ? inFolder : "vde");
}

/** Ask the server of a file, by default the active editor's; its answer is shown. */
async function ask(command: string, title: string, of?: string, ...more: number[]): Promise<void> {
  const uri = of ? vscode.Uri.parse(of) : vscode.window.activeTextEditor?.document.uri;
  const folder = uri && vscode.workspace.getWorkspaceFolder(uri);
  const client = folder && clients.get(folder.uri.toString());
  if (!client) {
    void vscode.window.showInformationMessage("Open a file of a vde project first.");
    return;
  }
  await show(title, await request(client, command, [uri.toString(), ...more]));
}

/** Ask a server to run a command, which a person may stop; then there is no answer. */
async function request(client: LanguageClient, command: string, args: unknown[]): Promise<unknown> {
  const send = (command: string, args: unknown[]): Promise<unknown> =>
    client.sendRequest("workspace/executeCommand", { command, arguments: args });
  const location = { location: vscode.ProgressLocation.Notification, cancellable: true };
  const title = command.replace("vde.", "vde ");
  return vscode.window.withProgress({ ...location, title }, async (_, token) => {
    token.onCancellationRequested(() => void send("vde.stop", []));
    try {
      return await send(command, args);
    } catch (error) {
      if (token.isCancellationRequested) return undefined;
      throw error;
    }
  });
}

/** Run the query that the cursor stands in. */
async function runHere(): Promise<void> {
  const at = vscode.window.activeTextEditor?.selection.active;
  await ask("vde.run", "Rows", undefined, at?.line ?? 0, at?.character ?? 0);
}

/** Show a command's result: a picture (SVG) or Markdown beside the editor; others pass through. */
async function show(title: string, result: unknown): Promise<unknown> {
  if (typeof result !== "string" || !result) return result;
  if (result.startsWith("<svg")) {
    const column = vscode.ViewColumn.Beside;
    const panel = vscode.window.createWebviewPanel("vde", title, column, {});
    panel.webview.html = `<!DOCTYPE html><body style="background: white">${result}</body>`;
    return result;
  }
  const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${title}.md` });
  shown.set(uri.path, result);
  changed.fire(uri);
  await vscode.commands.executeCommand("markdown.showPreviewToSide", uri);
  return result;
}
