"use strict";
// The home page: published versions, last changes, failures, late models, owners, and all models.

const MOST_LISTED = 8;

/** Return the models with missing intervals: [environment, cell], production first. */
async function lateModels() {
  if (!site.index.environments.length) return [];
  const { cells, words: own } = await load("environments");
  return cells.flatMap((each, at) => each.map(one => cell(one, own, at)).filter(one => one.missing.length));
}

const ownerOf = number => (site.index.models[number][6] < 0 ? null : site.index.words[site.index.models[number][6]]);

/** Make a list of the first items, with the number of further items. */
function shortList(items, more) {
  const rest = items.length - MOST_LISTED;
  return el("ul", {}, items.slice(0, MOST_LISTED).map(one => el("li", {}, one)), rest > 0 ? el("li", { class: "soft" }, `${count(rest)} more`, more ? [" in ", more] : "") : null);
}

const card = (title, number, tone, ...children) => el("section", { class: "card", "aria-label": title },
  el("h2", {}, title, number === null ? null : el("span", { class: `big ${tone}` }, count(number))), children);
const soft = (...parts) => el("small", { class: "soft" }, parts);

site.routes[""] = async () => {
  const { index } = site;
  const late = await lateModels();
  const { environments, publications, failed_plans: plans, failed_audits: audits } = index;
  const newest = [...publications].sort((one, other) => other[3] - one[3]);
  const failures = [
    ...plans.map(([environment, plan, at, message]) => [el("strong", {}, `Plan for ${environment}`), " ", soft(when(at)), el("div", { class: "clip", title: message }, message || el("code", {}, plan))]),
    ...auditsByModel(audits).map(([[number, audit, rows, at, plan, where], more]) => [
      modelLink(number), `: ${audit} found ${some(rows, "row")}${more ? `, and ${some(more, "other audit")} failed` : ""} `,
      soft(when(at), " by ", el("code", {}, plan), `, table of ${where.map(one => environments[one].name).join(", ")}`)]),
  ];
  const models = modelsTable(late);
  return {
    title: index.project,
    body: [
      el("p", { class: "soft" }, `${some(index.models.length, "model")}, ${some(environments.length, "environment")}${index.exposures.length ? `, ${some(index.exposures.length, "reader")} outside` : ""}`),
      el("div", { class: "cards" },
        card("Published", environments.length, "", environments.length ? shortList(environments.map(one => [
          environmentLink(one), " ", soft(when(one.at), one.by ? ` by ${one.by}` : "", one.frozen ? `, frozen as ${one.frozen}` : "")]), link(["environments"], "Environments")) : el("p", { class: "soft" }, "Nothing is published.")),
        card("Changed last", null, "", newest.length ? shortList(newest.map(one => [
          link(["publication", one[0], one[1]], `${one[0]}@${one[1]}`), ` ${counts(one) || (one[2] === "nothing" ? "no change" : one[2])} `, soft(when(one[3]), one[4] ? ` by ${one[4]}` : "")]), link(["environments"], "Environments")) : el("p", { class: "soft" }, "No version is recorded.")),
        card("Failed", failures.length, failures.length ? "bad" : "good", failures.length ? shortList(failures) : el("p", { class: "good" }, "No audit and no plan failed.")),
        card("Late", late.length, late.length ? "warn" : "good", late.length ? shortList(late.map(one => [
          modelLink(one.model), ` in ${one.environment.name} `, soft(`missing ${ranges(one.missing)}`)]), link(["environments"], "Environments")) : el("p", { class: "good" }, environments.length ? "All due intervals are filled." : "Nothing is due.")),
        ownersCard(late, models.choose)),
      section("Models", models.body),
      index.exposures.length ? section("Readers outside", table("Dashboards, syncs and other readers", ["Name", "Kind", "Description", "Owner", "Reads"], index.exposures.map(one => [
        outside(one), one.what, one.said || "", one.owner || "", between([...new Set((one.reads || []).map(([model]) => model))].map(model => modelLink(model)))]))) : null,
    ],
  };
};

/** Return the first failed audit of each model and plan, with the number of its other failed audits. */
function auditsByModel(audits) {
  const found = new Map();
  audits.forEach(one => {
    const key = `${one[0]} ${one[4]}`;
    found.set(key, [found.has(key) ? found.get(key)[0] : one, found.has(key) ? found.get(key)[1] + 1 : 0]);
  });
  return [...found.values()];
}

/** Owners by their number of models; a button filters the table of models by its owner. */
function ownersCard(late, choose) {
  const behind = new Set([...late.map(one => one.model), ...site.index.failed_audits.map(one => one[0])]);
  const owners = new Map();
  site.index.models.forEach((_, number) => {
    const name = ownerOf(number);
    const [all, bad] = owners.get(name) || [0, 0];
    owners.set(name, [all + 1, bad + Number(behind.has(number))]);
  });
  const named = [...owners].filter(([name]) => name !== null).sort((one, other) => other[1][0] - one[1][0] || (one[0] < other[0] ? -1 : 1));
  const none = owners.get(null);
  return card("Owners", named.length, none ? "warn" : "", shortList([
    ...named.map(([name, [all, bad]]) => [el("button", { type: "button", onclick: () => choose(name) }, name), ` ${some(all, "model")}`, bad ? el("span", { class: "warn" }, `, ${count(bad)} failed or late`) : null]),
    ...(none ? [el("span", { class: "soft" }, `${some(none[0], "model")} without an owner`)] : []),
  ]));
}

/** The table of all models, with a search field that filters its rows by their texts. */
function modelsTable(late) {
  const { index } = site;
  const missingIn = new Map(late.map(one => [one.model, one]));
  const failed = new Set(index.failed_audits.map(one => one[0]));
  const rows = index.models.map(([kind, description, columns, , , , , tags], number) => {
    const owner = ownerOf(number) || "";
    const state = failed.has(number) ? el("span", { class: "bad" }, "failed") : missingIn.has(number) ? el("span", { class: "warn" }, "late") : "";
    const row = el("tr", {}, el("th", { scope: "row" }, modelLink(number)), el("td", { class: "kind" }, kindMark(kind), index.words[kind]), el("td", { class: "number" }, columns.length),
      el("td", {}, owner), el("td", {}, state), el("td", {}, description || "", tags.length ? [" ", words(tags).map(tag => el("span", { class: "chip" }, tag))] : null));
    return [row, [index.names[number], index.words[kind], owner, ...words(tags), description || ""].join("\n").toLowerCase()];
  });
  const order = rows.map((_, at) => at).sort((one, other) => (index.names[one] < index.names[other] ? -1 : 1));
  const part = el("input", { type: "search", "aria-label": "Filter models by name, kind, owner, tag or description", placeholder: "Filter" });
  const status = el("span", { class: "soft", role: "status" });
  const filter = () => {
    const text = part.value.trim().toLowerCase();
    rows.forEach(([row, texts]) => { row.hidden = !texts.includes(text); });
    status.textContent = ` ${count(rows.filter(([row]) => !row.hidden).length)} of ${count(rows.length)} models`;
  };
  part.addEventListener("input", filter);
  filter();
  const body = [el("p", {}, part, status), table("All models", ["Model", "Kind", "Columns", "Owner", "State", "Description"], order.map(at => rows[at][0]))];
  return { body, choose: name => { part.value = name; filter(); part.scrollIntoView({ block: "center" }); part.focus({ preventScroll: true }); } };
}
