"use strict";
// Loading of data, making of elements, and choice of the page. Data is inserted only as text.

const site = { packed: new Map(), parts: new Map(), waiting: new Map(), routes: [], at: 0 };

/** Store the value of a data script, which calls this function. */
function vde(name, value) {
  if (name === "index") begin(value);
  else site.packed.set(name, value);
}

/** Return the value of deflated JSON in base64. */
function unpacked(text) {
  if (!globalThis.DecompressionStream) throw new Error("these pages need a browser of 2023 or later");
  const bytes = Uint8Array.from(atob(text), one => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

/** Load a data script once; the promise resolves to its value. */
function load(name) {
  if (!site.waiting.has(name)) {
    site.waiting.set(name, new Promise((done, failed) => {
      const tag = document.createElement("script");
      tag.src = `data/${name}.js`;
      tag.onload = async () => {
        try {
          site.parts.set(name, await unpacked(site.packed.get(name)));
          site.packed.delete(name);
          done(site.parts.get(name));
        } catch (error) {
          failed(new Error(`data/${name}.js cannot be read: ${error.message}`));
        }
      };
      tag.onerror = () => failed(new Error(`data/${name}.js cannot be read; build the site again`));
      document.head.append(tag);
    }));
    site.waiting.get(name).catch(() => site.waiting.delete(name));
  }
  return site.waiting.get(name);
}

/** Return a model's details. */
async function details(number) {
  const size = site.index.at_once;
  return (await load(`models-${Math.floor(number / size)}`))[number % size];
}

/** Make an element; texts among the children become text nodes. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter(one => one !== null && one !== undefined && one !== false).map(one => (one instanceof Node ? one : String(one))));
  return made;
}

/** Make a table; rows are lists of children, and numbers are aligned right. */
function table(caption, headers, rows, kind = "") {
  return el("div", { class: "wide", role: "region", "aria-label": caption, tabindex: 0 },
    el("table", { class: kind },
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, headers.map(one => el("th", { scope: "col" }, one)))),
      el("tbody", {}, rows.map(row => (row instanceof Node ? row : el("tr", {}, row.map((cell, at) => (
        cell instanceof HTMLTableCellElement ? cell
          : at ? el("td", { class: typeof cell === "number" ? "number" : null }, typeof cell === "number" ? count(cell) : cell)
            : el("th", { scope: "row" }, cell)))))))));
}

/** Make a list of terms, without terms that have no value. */
function facts(...pairs) {
  const told = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length));
  return el("dl", {}, told.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** Make a link to a route of these pages. */
function link(parts, text, attributes = {}) {
  return el("a", { href: `#/${parts.map(encodeURIComponent).join("/")}`, ...attributes }, text);
}

function modelLink(number, column) {
  const name = site.index.names[number];
  if (number >= site.index.models.length) return el("span", { title: "Not in this document" }, column ? `${name}.${column}` : name);
  return column ? link(["model", name, column], `${name}.${column}`) : link(["model", name], name);
}

const between = (nodes, mark = ", ") => nodes.flatMap((one, at) => (at ? [mark, one] : [one]));
const count = number => number.toLocaleString("en");
const some = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const when = seconds => (seconds === null || seconds === undefined ? "" : new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " "));
const day = seconds => when(seconds).replace(" 00:00", "");

/** Return flat ranges as text. */
function ranges(flat = []) {
  const told = [];
  for (let at = 0; at < flat.length; at += 2) told.push(`${day(flat[at])} to ${day(flat[at] + flat[at + 1])}`);
  return told.length > 3 ? `${told.slice(0, 3).join(", ")} and ${told.length - 3} more` : told.join(", ");
}

const sql = text => el("pre", { tabindex: 0 }, el("code", {}, text));
const section = (title, ...children) => el("section", { "aria-label": title }, el("h2", {}, title), children);

function words(numbers) {
  return (numbers || []).map(one => site.index.words[one]);
}

/** Return the number of a model by its name; -1 if there is none. */
function numbered(name) {
  const at = site.index.names.indexOf(name);
  return at < site.index.models.length ? at : -1;
}

/** Show the page that the address names. */
async function show() {
  const turn = ++site.at;
  const path = location.hash.replace(/^#\/?/, "").split("/").map(part => { try { return decodeURIComponent(part); } catch { return part; } });
  const [first, ...rest] = path;
  const page = site.routes[first] || (() => missing(path.join("/")));
  let made;
  try {
    made = await page(...rest);
  } catch (error) {
    made = { title: "Not shown", body: [el("p", { role: "alert" }, error.message)] };
  }
  if (turn !== site.at) return;
  const title = el("h1", { tabindex: -1 }, made.title);
  const main = document.getElementById("main");
  main.replaceChildren(title, ...[made.body].flat(9).filter(Boolean));
  main.classList.toggle("broad", Boolean(made.broad));
  document.title = `${made.title} · ${site.index.project}`;
  for (const one of document.querySelectorAll("header nav a")) {
    const its = one.getAttribute("href").slice(2);
    const here = its === first || (its === "" && first === "model");
    if (here) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  if (made.ready) made.ready();
  if (site.shown) { scrollTo(0, 0); title.focus({ preventScroll: true }); }
  if (made.focus) made.focus.scrollIntoView({ block: "center" });
  site.shown = true;
}

function missing(what) {
  return { title: "Nothing here", body: [el("p", {}, `This documentation does not contain ${what}.`), el("p", {}, link([""], "All models"))] };
}

/** Apply and store the user's choice of colors; the system's colors are the default. */
function colours() {
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const store = (name, value) => { try { return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value); } catch { return null; } };
  const is = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light"));
  const tell = () => {
    button.textContent = is() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use ${button.textContent.toLowerCase()} colors`);
    dispatchEvent(new Event("colours"));
  };
  const kept = store("vde-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = is() === "dark" ? "light" : "dark";
    store("vde-theme", document.documentElement.dataset.theme);
    tell();
  });
  dark.addEventListener("change", tell);
  tell();
}

/** Begin once the index is loaded, after all other scripts. */
function begin(index) {
  site.index = index;
  site.readers = index.models.map(() => []);
  index.models.forEach((model, number) => model[3].forEach(parent => site.readers[parent] && site.readers[parent].push(number)));
  document.getElementById("project").textContent = index.project;
  document.getElementById("footer").textContent = `${index.of === "files" ? "The project's files" : index.of} as of ${when(index.as_of)} UTC, catalog ${index.catalog}.`;
  colours();
  searching();
  document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); document.getElementById("main").focus(); });
  addEventListener("hashchange", show);
  show();
}
