"use strict";
// Search in names, columns and descriptions; in descriptions of columns and SQL once details are loaded.

const MOST_FOUND = 40;

/** Return how well a model's name matches a search; 0 for no match. */
function rank(name, asked) {
  const last = name.slice(name.lastIndexOf(".") + 1);
  if (name === asked || last === asked) return 6;
  if (last.startsWith(asked) || name.startsWith(asked)) return 5;
  return name.includes(asked) ? 4 : 0;
}

/** Return the part of a text around a match. */
function around(text, asked) {
  const at = text.toLowerCase().indexOf(asked);
  return `${at > 30 ? "…" : ""}${text.slice(Math.max(0, at - 30), at + asked.length + 60).replace(/\s+/g, " ")}`;
}

/** Return the matches, best first: [rank, model, column, text]. */
function find(asked) {
  const { models, names, words } = site.index;
  const found = [];
  models.forEach(([kind, description, columns], number) => {
    const named = rank(names[number].toLowerCase(), asked);
    if (named) found.push([named, number, null, description || words[kind]]);
    else if (description && description.toLowerCase().includes(asked)) found.push([2, number, null, around(description, asked)]);
    const known = site.parts.get(`models-${Math.floor(number / site.index.at_once)}`);
    const more = known && known[number % site.index.at_once];
    columns.forEach((word, at) => {
      const column = words[word].toLowerCase();
      const said = more && more.said && more.said[at];
      if (column.includes(asked)) found.push([column === asked ? 3.5 : 3, number, words[word], "Column"]);
      else if (said && said[0].toLowerCase().includes(asked)) found.push([1.5, number, words[word], around(said[0], asked)]);
    });
    if (more && more.source && more.source.toLowerCase().includes(asked) && !named) found.push([1, number, null, `SQL: ${around(more.source, asked)}`]);
  });
  return found.sort((one, other) => other[0] - one[0] || one[1] - other[1]);
}

function searching() {
  const input = document.getElementById("search");
  const list = document.getElementById("results");
  const status = document.getElementById("found");
  let at = -1;
  let asked = "";

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    at = -1;
  };
  const choose = number => {
    const all = [...list.children].filter(one => one.dataset.to);
    if (!all.length) return;
    at = (number + all.length) % all.length;
    all.forEach((one, place) => one.setAttribute("aria-selected", String(place === at)));
    all[at].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", all[at].id);
  };
  const go = item => {
    close();
    input.value = "";
    asked = "";
    if (location.hash === item.dataset.to) show();
    else location.hash = item.dataset.to;
  };
  const draw = () => {
    const chosen = at;
    const found = find(asked);
    list.replaceChildren(...found.slice(0, MOST_FOUND).map(([, number, column, told], place) => {
      const name = site.index.names[number];
      const to = `#/${["model", name, ...(column ? [column] : [])].map(encodeURIComponent).join("/")}`;
      return el("li", { role: "option", id: `found-${place}`, "data-to": to, "aria-selected": "false", onmousedown: event => { event.preventDefault(); go(event.currentTarget); } },
        column ? `${name}.${column}` : name, el("small", {}, told));
    }));
    status.textContent = found.length ? `${found.length} found` : "Nothing found";
    if (!found.length) list.append(el("li", { role: "option", "aria-disabled": "true" }, "Nothing found"));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    choose(chosen < 0 ? 0 : Math.min(chosen, found.length - 1));
  };
  const all = () => {
    const files = Math.ceil(site.index.models.length / site.index.at_once);
    return Promise.all(Array.from({ length: files }, (_, number) => load(`models-${number}`)));
  };
  input.addEventListener("input", () => {
    asked = input.value.trim().toLowerCase();
    at = -1;
    if (!asked) return close();
    draw();
    if (asked.length > 2) {
      const then = asked;
      all().then(() => { if (asked === then && !list.hidden) draw(); }, () => {});
    }
    return undefined;
  });
  input.addEventListener("keydown", event => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (list.hidden && asked) draw();
      else choose(at + (event.key === "ArrowDown" ? 1 : -1));
      event.preventDefault();
    } else if (event.key === "Enter") {
      const item = list.querySelector('[aria-selected="true"]');
      if (item && !list.hidden) go(item);
    } else if (event.key === "Escape") {
      close();
      input.blur();
    }
  });
  input.addEventListener("blur", close);
  addEventListener("keydown", event => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}
