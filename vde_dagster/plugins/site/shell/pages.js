"use strict";
// A model's page, and the lineage of a column in both directions.

const VALUES = new Set(["identity", "transformation", "aggregation"]);
const UNKNOWN = new Set(["python", "unknown"]);

/** Return a model's cells of the matrix, one for each environment that shows it. */
async function cellsOf(number) {
  const { cells, words: own } = await load("environments");
  return cells.flatMap((each, at) => each.filter(one => one[0] === number).map(one => cell(one, own, at)));
}

/** Return a cell as an object. */
function cell(one, own, at) {
  const [model, version, whose, number, view, change, category, rows, pinned, since, filled, missing] = one;
  const named = word => (word === null || word === undefined || word < 0 ? null : own[word]);
  const name = site.index.names[model];
  return {
    model, environment: site.index.environments[at], version: named(version), whose: named(whose), table: number ?? -1,
    view: typeof view === "number" && view >= 0 ? `${own[view]}.${name.slice(name.lastIndexOf(".") + 1)}` : typeof view === "string" ? view : null,
    change: named(change), category: named(category), rows, pinned, since, filled: filled || [], missing: missing || [],
  };
}

/** Return a link for an HTTP address, and text for all others, which could be scripts. */
function outside(one) {
  return /^https?:\/\//i.test(one.url || "") ? el("a", { href: one.url, rel: "noreferrer noopener" }, one.name) : el("span", {}, one.name);
}

/** The page of a model, or of one of its columns. */
site.routes.model = async (name, column) => {
  const number = numbered(name);
  if (number < 0) return missing(name);
  const [model, cells] = await Promise.all([details(number), cellsOf(number)]);
  const [kind, description, columns, parents] = site.index.models[number];
  const readers = site.readers[number];
  const [query, differs] = queryOf(model);
  const at = column === undefined ? -1 : columns.findIndex(word => site.index.words[word].toLowerCase() === column.toLowerCase());
  if (column !== undefined && at < 0) return missing(`${name}.${column}`);
  const lineage = at < 0 ? null : columnLineage(number, at, model);
  return {
    title: at < 0 ? name : `${name}.${site.index.words[columns[at]]}`,
    focus: lineage,
    body: [
      at < 0 ? null : el("p", {}, link(["model", name], `All of ${name}`)),
      description ? el("p", {}, description) : el("p", { class: "soft" }, "No description"),
      lineage,
      facts(
        ["Kind", [kindMark(kind), site.index.words[kind]]],
        ["Schedule", model.cron === undefined ? null : `${site.index.words[model.cron]}${model.cron_tz ? ` ${model.cron_tz}` : ""}`],
        ["Interval unit", model.unit], ["Owner", ownerOf(number)],
        ["Tags", words(site.index.models[number][7]).map(tag => el("span", { class: "chip" }, tag))],
        ["Grain", (model.grains || []).map(grain => grain.join(", ")).join("; ")],
        ["Partitioned by", (model.partitioned_by || []).join(", ")],
        ["Version", el("code", {}, model.version)],
        ["File", model.path ? el("code", {}, model.line ? `${model.path}:${model.line}` : model.path) : null],
        ["Reads", between(parents.map(parent => modelLink(parent)))],
        ["Read by", readers.length ? between(readers.map(reader => modelLink(reader))) : "no model"],
        ["Outside", between(site.index.exposures.filter(one => (one.reads || []).some(([read]) => read === number)).map(outside))],
        ["Unit tests", (model.tests || []).join(", ")],
        ["Opaque query", model.opaque ? el("span", { class: "warn" }, model.opaque) : null],
      ),
      parents.length || readers.length ? section("Parents and readers", nearGraph(number), el("p", {}, link(["graph", name], "The graph alone"))) : null,
      section("Columns", columnsTable(name, model, columns, at)),
      shownIn(cells, model),
      audited(model, cells),
      costs(model, cells),
      section("SQL", model.source ? sql(model.source) : el("p", { class: "soft" }, "None"),
        differs ? [el("h3", {}, "Rendered"), sql(query)] : query ? el("p", { class: "soft" }, "The rendered query equals the written query.") : null),
    ],
  };
};

/** Return the rendered query, and whether its text differs from the author's. */
function queryOf(model) {
  if (model.query === undefined) return [null, false];
  if (typeof model.query === "string") return [model.query, true];
  const [at, length] = model.query;
  return [model.source.slice(at, at + length), false];
}

function columnsTable(name, model, columns, chosen) {
  return table("Choose a column to see its sources and its readers", ["Column", "Type", "Description"], columns.map((word, at) => {
    const column = site.index.words[word];
    const [text, from] = (model.said && model.said[at]) || [];
    const type = model.types && model.types[at] >= 0 ? el("code", {}, site.index.words[model.types[at]]) : el("span", { class: "chip unknown" }, "unknown");
    return el("tr", { "aria-current": at === chosen ? "true" : null },
      el("th", { scope: "row" }, link(["model", name, column], column)), el("td", {}, type),
      el("td", {}, text ? [el("span", {}, text), from ? el("small", { class: "soft" }, " inherited from ", inheritedLink(from)) : null] : el("span", { class: "soft" }, "—")));
  }));
}

function inheritedLink(from) {
  const cut = from.lastIndexOf(".");
  const number = numbered(from.slice(0, cut));
  return number < 0 ? from : modelLink(number, from.slice(cut + 1));
}

/** The versions of a model in environments: rows, filled and missing ranges. */
function shownIn(cells, model) {
  if (!cells.length) return section("Environments", el("p", { class: "soft" }, "No environment shows it."));
  return section("Environments", table("The model in each environment", ["Environment", "Version", "Table", "Rows", "Filled", "Missing", "Newest fill", "Since"], cells.map(one => {
    const its = (model.tables || {})[one.table];
    const newest = its && its.fills && its.fills[0];
    return [
      link(["environments"], `${one.environment.name}@${one.environment.version}`),
      [el("code", {}, one.version), one.version === model.version ? null : el("small", { class: "warn" }, " not the version of this page"), changed(one)],
      [el("span", { class: "chip" }, one.whose), its ? el("code", {}, its.branch ? `${its.name}, branch ${its.branch}` : its.name) : null, one.view ? el("small", { class: "soft" }, ` as ${one.view}`) : null],
      one.rows === null || one.rows === undefined ? "" : one.rows, ranges(one.filled) || "—",
      one.missing.length ? el("span", { class: "bad" }, ranges(one.missing)) : el("span", { class: "good" }, "nothing"),
      newest ? when(newest[2]) : "", when(one.since),
    ];
  })));
}

function changed(one) {
  return one.change ? el("small", { class: "warn" }, ` ${changeText(one)}`) : null;
}

function changeText(one) {
  return one.category && one.category !== one.change ? `${one.change}, ${one.category}` : one.change;
}

/** The environments that show each table, production first. */
function environmentsByTable(cells) {
  const found = new Map();
  for (const { table, environment } of cells) found.set(table, [found.get(table), environment.name].filter(Boolean).join(", "));
  return found;
}

function audited(model, cells) {
  if (!model.audits) return null;
  const tables = environmentsByTable(cells.filter(one => (model.tables || {})[one.table]));
  const results = name => [...tables].flatMap(([number, environments]) => (model.tables[number].audits || []).filter(each => each[0] === name).map(([, , failed, at, plan]) => (
    el("div", {}, el("span", { class: failed ? "bad" : "good" }, failed ? `${count(failed)} rows failed` : "passed"), el("small", { class: "soft" }, ` ${when(at)} by `, el("code", {}, plan), `; table of ${environments}`)))));
  return section("Audits", table("Audits and their last results", ["Audit", "Stops a publication", "Last result", "Query"], model.audits.map(([name, blocking, query]) => {
    const found = results(name);
    return [name, blocking ? "yes" : "no", found.length ? found : el("span", { class: "soft" }, "not run"), el("details", {}, el("summary", {}, "Query"), sql(query))];
  })));
}

/** The costs of fills of a model's tables, newest first. */
function costs(model, cells) {
  const shownBy = environmentsByTable(cells);
  const shown = Object.entries(model.tables || {}).filter(([, one]) => one.fills);
  if (!shown.length) return null;
  return section("Fills", shown.map(([number, one]) => {
    let [start, at] = [0, 0];
    const fills = one.fills.map(([begun, length, recorded, rows, bytes, seconds, skipped, refresh]) => {
      start += begun; at += recorded;
      return { start, length, at, rows, bytes, seconds, skipped, refresh };
    });
    const refreshes = fills.some(fill => fill.refresh);
    const most = Math.max(...fills.map(fill => fill.seconds || 0));
    const bars = most > 0 && fills.length > 1 ? el("div", { class: "bars", role: "img", "aria-label": `Seconds of ${fills.length} fills, at most ${most}` }) : null;
    if (bars) for (const fill of [...fills].reverse()) { const bar = el("i"); bar.style.height = `${((fill.seconds || 0) / most) * 100}%`; bars.append(bar); }
    return [
      el("h3", {}, one.name, shownBy.has(+number) ? el("small", { class: "soft" }, ` of ${shownBy.get(+number)}`) : null), bars,
      table("Newest first", ["Recorded", "Range", "Rows", "Bytes", "Seconds", ...(refreshes ? ["Method"] : [])], fills.map(fill => [when(fill.at), fill.length ? ranges([fill.start, fill.length]) : "",
        fill.skipped ? "nothing to do" : fill.rows ?? "", fill.bytes ?? "", fill.seconds ?? "", ...(refreshes ? [fill.refresh ?? ""] : [])])),
    ];
  }));
}

/** The lineage of a column in both directions, one step at a time. */
function columnLineage(number, at, model) {
  const word = site.index.words[site.index.models[number][2][at]];
  const own = parentsOf(model, at + 1);
  const rows = parentsOf(model, 0);
  const groups = [
    ["Computed from", own.filter(one => !decides(one))], ["Conditions on", own.filter(decides)],
    ["All rows depend on", rows],
  ].filter(([, found]) => found.length);
  const known = own.length > 0;
  const up = el("div", { class: "lineage" }, el("h3", {}, "Sources"),
    known ? null : el("p", { class: "soft" }, model.opaque ? el("span", { class: "chip unknown" }, "unknown: the query cannot be analyzed") : "No column of a parent, such as for a constant or a count."),
    groups.map(([name, found]) => [el("p", { class: "soft" }, name), el("ul", {}, found.map(one => step(one, "up", new Set([`${number}.${at + 1}`]))))]));
  const down = el("div", { class: "lineage", "aria-busy": "true" }, el("h3", {}, "Readers"));
  const users = childrenOf(number, at).then(found => {
    down.setAttribute("aria-busy", "false");
    down.append(found.length ? el("ul", {}, found.map(one => step(one, "down", new Set([`${number}.${at + 1}`])))) : el("p", { class: "soft" }, "No model reads it."));
    const reads = site.index.exposures.filter(one => (one.reads || []).some(([read, column]) => read === number && (!column || column.toLowerCase() === word.toLowerCase())));
    if (reads.length) down.append(el("p", { class: "soft" }, "Outside"), el("ul", {}, reads.map(one => el("li", {}, outside(one), ` (${one.what})`, one.said ? `: ${one.said}` : ""))));
  });
  users.catch(error => down.append(el("p", { role: "alert" }, error.message)));
  return el("section", { "aria-label": `Lineage of ${word}` }, el("h2", {}, `Lineage of ${word}`), el("div", { class: "sides" }, up, down));
}

const decides = one => !VALUES.has(one.how) && !UNKNOWN.has(one.how);

/** Return the sources of a model's column, or of all its rows (0). */
function parentsOf(model, to) {
  return (model.flows || []).flatMap(([parent, how, pairs]) => {
    const found = [];
    for (let at = 0; at < pairs.length; at += 2) {
      if (pairs[at] === to) found.push({ model: parent, how: site.index.words[how], ...sourceOf(parent, pairs[at + 1]) });
    }
    return found;
  });
}

/** Return a source's name and its position among the parent's columns. */
function sourceOf(parent, source) {
  if (typeof source === "string") return { at: -1, name: source };
  return { at: source, name: site.index.words[site.index.models[parent][2][source]] };
}

/** Return the columns of readers that use a column; position -1 means all rows. */
async function childrenOf(number, at) {
  const found = await Promise.all(site.readers[number].map(async reader => {
    const columns = site.index.models[reader][2];
    return ((await details(reader)).flows || []).flatMap(([parent, how, pairs]) => {
      const used = [];
      for (let pair = 0; parent === number && pair < pairs.length; pair += 2) {
        if (pairs[pair + 1] !== at) continue;
        const to = pairs[pair] - 1;
        used.push({ model: reader, at: to, how: site.index.words[how], name: to < 0 ? null : site.index.words[columns[to]] });
      }
      return used;
    });
  }));
  return found.flat();
}

/** Return an item of lineage with a button for its next step. */
function step(one, direction, seen) {
  const unknown = UNKNOWN.has(one.how);
  const item = el("li", {}, one.name === null ? [modelLink(one.model), " all rows"] : modelLink(one.model, one.name), " ",
    el("span", { class: unknown ? "chip unknown" : "chip" }, one.how === "python" ? "Python, use unknown" : one.how));
  const key = `${one.model}.${one.at + 1}`;
  if (one.at < 0 || one.model >= site.index.models.length) return item;
  if (seen.has(key)) { item.append(el("small", { class: "soft" }, " see above")); return item; }
  const button = el("button", { type: "button", "aria-expanded": "false", "aria-label": `Further ${direction === "up" ? "sources" : "readers"} of ${site.index.names[one.model]}.${one.name}` }, "further");
  button.addEventListener("click", async () => {
    const open = item.querySelector("ul");
    if (open) { open.remove(); button.setAttribute("aria-expanded", "false"); return; }
    const next = direction === "up" ? parentsOf(await details(one.model), one.at + 1) : await childrenOf(one.model, one.at);
    if (item.querySelector("ul")) return;
    const then = new Set([...seen, key]);
    item.append(el("ul", {}, next.length ? next.map(each => step(each, direction, then)) : el("li", { class: "soft" }, direction === "up" ? "no sources" : "no readers")));
    button.setAttribute("aria-expanded", "true");
  });
  item.append(button);
  return item;
}
