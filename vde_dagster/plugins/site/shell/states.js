"use strict";
// Contents of environments, changes of each publication, and differences of environments.

/** The matrix: a row per model, a column per environment. */
site.routes.environments = async () => {
  const { environments, publications, differences, names } = site.index;
  if (!environments.length) return { title: "Environments", body: [el("p", {}, "Nothing is published.")] };
  const { cells, words: own } = await load("environments");
  const rows = new Map();
  cells.forEach((each, at) => each.forEach(one => {
    if (!rows.has(one[0])) rows.set(one[0], Array(environments.length).fill(null));
    rows.get(one[0])[at] = cell(one, own, at);
  }));
  const order = [...rows.keys()].sort((one, other) => (names[one] < names[other] ? -1 : 1));
  const made = order.map(number => [number, el("tr", {}, el("th", { scope: "row" }, modelLink(number)), rows.get(number).map(matrixCell))]);
  const differ = el("input", { type: "checkbox", id: "differ" });
  const part = el("input", { type: "search", id: "part", "aria-label": "Part of a model's name", placeholder: "Part of a name" });
  const status = el("span", { class: "soft", role: "status" });
  const filter = () => {
    const shown = made.filter(([number, row]) => {
      const its = rows.get(number);
      row.hidden = !(names[number].includes(part.value.trim())
        && (!differ.checked || its.some(one => !one || one.version !== (its[0] || {}).version || one.table !== its[0].table || one.missing.length)));
      return !row.hidden;
    });
    status.textContent = ` ${count(shown.length)} of ${count(made.length)} models`;
  };
  differ.addEventListener("change", filter);
  part.addEventListener("input", filter);
  filter();
  const asked = differences.filter(each => each[0].includes("@"));
  return {
    title: "Environments",
    body: [
      table("Versions of environments", ["Environment", "Published", "By", "Plan", "Note", "Differs from"], environments.map(one => [
        environmentLink(one), when(one.at), one.by || "", one.plan ? el("code", {}, one.plan) : "",
        [one.note || "", one.frozen ? ` frozen as ${one.frozen}` : "", one.expires ? ` until ${when(one.expires)}` : ""].join(""),
        between(differences.filter(each => each[0] === one.name).map(each => link(["difference", each[0], each[1]], each[1]))),
      ])),
      section("Versions of models by environment", el("p", {}, el("label", { for: "differ" }, differ, " only models that differ or have missing intervals "), " ", part, status),
        el("p", { class: "soft" }, "own: a separate table; shared: production's table; held: the table at an earlier commit; view, external: no table."),
        table("Models and environments", ["Model", ...environments.map(one => `${one.name}@${one.version}`)], made.map(([, row]) => row), "matrix")),
      asked.length ? section("Versions compared", el("ul", {}, asked.map(each => el("li", {}, link(["difference", each[0], each[1]], `${each[0]} against ${each[1]}`))))) : null,
      publications.length ? section("Publications", table("Newest first", ["Version", "Changed", "Published", "By", "Models"], publications.map(one => [
        link(["publication", one[0], one[1]], `${one[0]}@${one[1]}`), one[2], when(one[3]), one[4], counts(one)]))) : null,
    ],
  };
};

function environmentLink(one) {
  const known = site.index.publications.some(each => each[0] === one.name && each[1] === one.version);
  return known ? link(["publication", one.name, one.version], `${one.name}@${one.version}`) : `${one.name}@${one.version}`;
}

function matrixCell(one) {
  if (!one) return el("td", { class: "soft" }, "absent");
  return el("td", { class: one.whose === "own" && one.change ? "own" : null },
    el("code", {}, one.version), " ", el("span", { class: "chip" }, one.whose),
    one.change ? el("small", { class: "warn" }, changeText(one)) : null,
    one.missing.length ? el("small", { class: "bad" }, `missing ${ranges(one.missing)}`) : null);
}

const counts = one => [["added", one[5]], ["changed", one[6]], ["removed", one[7]]].filter(([, number]) => number).map(([what, number]) => `${count(number)} ${what}`).join(", ");

/** One publication's changes of definitions and data. */
site.routes.publication = async (environment, version) => {
  const one = site.index.publications.find(each => each[0] === environment && String(each[1]) === version);
  if (!one) return missing(`publication ${environment}@${version}`);
  const [, , what, at, by, , , , file, place] = one;
  const told = (await load(`publications-${file}`))[place];
  const its = site.index.publications.filter(each => each[0] === environment);
  const here = its.indexOf(one);
  const near = [[its[here + 1], "Earlier"], [its[here - 1], "Later"]].filter(([each]) => each).map(([each, text]) => link(["publication", each[0], each[1]], `${text}: ${each[0]}@${each[1]}`));
  return {
    title: `${environment}@${version}`,
    body: [
      el("p", {}, link(["environments"], "All environments"), near.map(each => [" · ", each])),
      facts(["Changed", what], ["Published", `${when(at)} UTC`], ["By", by], ["Plan", told.plan ? el("code", {}, told.plan) : "none: a rollback"], ["Note", told.note],
        ["Models", counts(one)], ["Against", between(its.slice(here + 1).map(each => link(["difference", `${environment}@${version}`, `${environment}@${each[1]}`], `${environment}@${each[1]}`)))], ["Dropped", told.dropped ? "the environment was dropped" : null]),
      section("Definitions", definitions(told.definitions, Number(version) === 1 ? "This is the first version: all models are new." : "No definition changed.")),
      section("Data", told.data ? table("Tables whose rows changed", ["Models", "What", "Rows", "Added", "Removed", "Filled"], told.data.map(([models, word, rows, added, removed, filled]) => [
        between(models.map(model => modelLink(model))), site.index.words[word], rows ?? "", added ?? "", removed ?? "", ranges(filled || [])])) : el("p", { class: "soft" }, "No rows changed.")),
    ],
  };
};

/** The differences of a version from an earlier version, by the publications in between. */
async function sinceVersion(newer, older) {
  const [environment, until] = newer.split("@");
  const from = Number(older.split("@")[1]);
  const its = site.index.publications.filter(each => each[0] === environment);
  const is = version => its.some(each => each[1] === version);
  if (older.split("@")[0] !== environment || !is(from) || !is(Number(until)) || from >= Number(until)) return missing(`difference of ${newer} and ${older}`);
  const since = its.filter(each => each[1] > from && each[1] <= Number(until)).reverse();
  const told = await Promise.all(since.map(async each => [each[1], (await load(`publications-${each[8]}`))[each[9]]]));
  const [models, tables] = [new Map(), new Map()];
  for (const [version, { definitions: changed, data }] of told) {
    for (const one of changed || []) models.set(one.model, [...(models.get(one.model) || []), { ...one, version }]);
    for (const [ids, , rows, added, removed] of data || []) {
      const before = tables.get(ids.join()) || [ids, null, 0, 0];
      const sum = (one, other) => (typeof one === "number" && typeof other === "number" ? one + other : "");
      tables.set(ids.join(), [ids, rows ?? before[1], sum(before[2], added), sum(before[3], removed)]);
    }
  }
  const [net, back] = [[], []];
  for (const steps of models.values()) {
    const [first, last] = [steps[0], steps[steps.length - 1]];
    if (first.was === last.now) { back.push(first.model); continue; }
    const all = key => steps.flatMap(one => one[key] || []);
    const at = one => (steps.length > 1 ? `${environment}@${one.version}: ` : "");
    net.push(steps.length === 1 ? first : {
      model: first.model, change: first.was < 0 ? "added" : last.now < 0 ? "removed" : "modified",
      category: [...new Set(steps.map(one => one.category).filter(Boolean))].join(", then "),
      added: [...new Set(all("added"))], removed: [...new Set(all("removed"))], changed: [...new Set(all("changed"))],
      reasons: steps.flatMap(one => (one.reasons || []).map(text => at(one) + text)),
    });
  }
  return {
    title: `${newer} against ${older}`,
    body: [
      el("p", {}, link(["publication", environment, until], newer), " · ", link(["publication", environment, from], older)),
      section("Definitions", definitions(net.length ? net : null, "All models are defined alike.")),
      back.length ? section("Changed and back", el("ul", {}, back.map(number => el("li", {}, modelLink(number))))) : null,
      section("Data", tables.size ? table("Tables whose rows changed in between", ["Models", "Rows", "Added", "Removed"], [...tables.values()].map(([ids, ...numbers]) => [
        between(ids.map(one => modelLink(one))), ...numbers.map(one => one ?? "")])) : el("p", { class: "soft" }, "No rows changed.")),
    ],
  };
}

/** The differences of an environment from another one, or of a version from an earlier version. */
site.routes.difference = async (newer, older) => {
  const one = site.index.differences.find(each => each[0] === newer && each[1] === older);
  if (!one && `${newer}`.includes("@") && `${older}`.includes("@")) return sinceVersion(newer, older);
  const known = name => site.index.environments.some(each => each.name === name);
  if (!one && !(known(newer) && known(older))) return missing(`difference of ${newer} and ${older}`);
  const told = one ? (await load(`differences-${one[4]}`))[one[5]] : {};
  const rows = told.data || [];
  const others = (told.tables || []).filter(number => !rows.some(each => each[0] === number));
  const kinds = [one && one[2] ? "definitions" : null, rows.length || others.length ? "data" : null].filter(Boolean);
  return {
    title: `${newer} against ${older}`,
    body: [
      el("p", {}, link(["environments"], "All environments"), " · ", link(["difference", older, newer], "The other way")),
      one ? facts(["Differs in", kinds.join(" and ") || "nothing"]) : el("p", {}, "They are equal, or were not compared."),
      section("Definitions", definitions(told.definitions, "All models are defined alike.")),
      section("Data", rows.length ? table("Models whose rows differ, as they were published", ["Model", "Rows before", "Rows", "Added", "Removed"], rows.map(([number, ...numbers]) => [
        modelLink(number), ...[0, 1, 2, 3].map(at => numbers[at] ?? "")])) : el("p", { class: "soft" }, "No rows are known to differ.")),
      others.length ? section("Same definition, another table", el("ul", {}, others.map(number => el("li", {}, modelLink(number))))) : null,
    ],
  };
};

function definitions(found, otherwise) {
  if (!found) return el("p", { class: "soft" }, otherwise);
  const columns = one => [["+", one.added], ["−", one.removed], ["~", one.changed]].flatMap(([mark, names]) => (names || []).map(name => el("div", {}, el("code", {}, `${mark} ${name}`))));
  return table("Models with different definitions", ["Model", "Change", "Effect on data", "Columns", "Why"], found.map(one => [
    modelLink(one.model), one.change, one.category || "", columns(one), (one.reasons || []).map(text => el("div", {}, text))]));
}
