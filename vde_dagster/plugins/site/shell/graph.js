"use strict";
// Graphs: the neighbors of a model as a picture with links, and all models on a canvas.

const BOX = { width: 300, height: 34, gap: 10, across: 110 };
const MOST_NEAR = 40;

/** Groups of kinds: name, prefix of the kinds' names, outline. */
const GROUPS = [
  ["incremental", /^(INCREMENTAL|SCD)/, "stack"], ["full", /^FULL/, "box"], ["view", /^(VIEW|EMBEDDED)/, "pill"],
  ["seed", /^SEED/, "folded"], ["external", /^EXTERNAL/, "slanted"], ["other", /^/, "cut"],
];
const groupOf = kind => GROUPS.find(([, names]) => names.test(site.index.words[kind]));
const kindMark = kind => el("i", { class: `mark k-${groupOf(kind)[0]}`, "aria-hidden": "true" });

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Return the picture of a model between its parents and readers; on narrow screens one below the other. */
function nearGraph(number) {
  const narrow = innerWidth < 700;
  const placed = one => (site.index.models[one] || [0, 0, 0, 0, 0, 0])[5];
  const order = list => [...list].sort((one, other) => placed(one) - placed(other));
  const sides = [order(site.index.models[number][3]), [number], order(site.readers[number])];
  const shown = sides.map(side => side.slice(0, narrow ? 12 : MOST_NEAR));
  const step = BOX.height + BOX.gap;
  const before = side => shown.slice(0, side).reduce((sum, one) => sum + one.length * step + (one.length ? 30 : 0), BOX.gap);
  const tall = narrow ? before(3) - 20 : Math.max(...shown.map(side => side.length)) * step + BOX.gap;
  const wide = narrow ? BOX.width + 60 : 3 * BOX.width + 2 * BOX.across + 2 * BOX.gap;
  const left = side => (narrow ? 30 : BOX.gap + side * (BOX.width + BOX.across));
  const top = (side, at) => at * step + (narrow ? before(side) : (tall - shown[side].length * step + BOX.gap) / 2);
  const centre = top(1, 0) + BOX.height / 2;
  const edge = (x, y, to, end) => svg("path", { d: narrow ? `M${x},${y} H${x < 100 ? 12 : wide - 12} V${end} H${to}` : `M${x},${y} C${x + BOX.across / 2},${y} ${to - BOX.across / 2},${end} ${to},${end}` });
  const right = side => left(side) + BOX.width;
  const made = svg("svg", { class: "near", viewBox: `0 0 ${wide} ${tall}`, role: "group", "aria-label": `Parents and readers of ${site.index.names[number]}` });
  made.style.maxWidth = `${wide}px`;
  shown[0].forEach((_, at) => made.append(edge(narrow ? left(0) : right(0), top(0, at) + BOX.height / 2, left(1), centre)));
  shown[2].forEach((_, at) => made.append(edge(right(1), centre, narrow ? right(2) : left(2), top(2, at) + BOX.height / 2)));
  shown.forEach((side, which) => side.forEach((one, at) => made.append(box(one, left(which), top(which, at), which === 1))));
  const cut = sides.reduce((sum, side, which) => sum + side.length - shown[which].length, 0);
  return el("div", {}, made, cut ? el("p", { class: "soft" }, `${count(cut)} more are in the lists above.`) : null);
}

function box(number, x, y, here) {
  const name = site.index.names[number];
  const known = number < site.index.models.length;
  const text = name.length > 34 ? `…${name.slice(-33)}` : name;
  const parts = [svg("title", {}, name), svg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 5 }),
    svg("rect", { x, y, width: 6, height: BOX.height, rx: 2, class: `k-${known ? groupOf(site.index.models[number][0])[0] : "external"}` }), svg("text", { x: x + 16, y: y + 22 }, text)];
  if (here || !known) return svg("g", { class: here ? "here" : "" }, ...parts);
  return svg("a", { href: `#/model/${encodeURIComponent(name)}` }, ...parts);
}

site.routes.graph = (name, expression) => {
  if (name === undefined || name === "") return wholeGraph(expression || "");
  const number = numbered(name);
  if (number < 0) return missing(name);
  return { title: `Around ${name}`, body: [el("p", {}, link(["model", name], "Page of the model"), " · ", link(["graph", "", `+${name}+`], "All ancestors and descendants"), " · ", link(["graph"], "The whole graph")), nearGraph(number)] };
};

const NODE = { width: 216, height: 44, x: 290, y: 60 };

/** Trace the outline of a node. */
function outline(pen, shape, x, y, width, height) {
  pen.beginPath();
  if (shape === "pill") pen.roundRect(x, y, width, height, height / 2);
  else if (shape === "folded") { pen.moveTo(x, y); pen.lineTo(x + width - 12, y); pen.lineTo(x + width, y + 12); pen.lineTo(x + width, y + height); pen.lineTo(x, y + height); pen.closePath(); }
  else if (shape === "slanted") { pen.moveTo(x + 10, y); pen.lineTo(x + width, y); pen.lineTo(x + width - 10, y + height); pen.lineTo(x, y + height); pen.closePath(); }
  else if (shape === "cut") { pen.moveTo(x + 10, y); pen.lineTo(x + width - 10, y); pen.lineTo(x + width, y + height / 2); pen.lineTo(x + width - 10, y + height); pen.lineTo(x + 10, y + height); pen.lineTo(x, y + height / 2); pen.closePath(); }
  else pen.roundRect(x, y, width, height, 6);
}

/** Draw a node's shape in the color of its kind. */
function shapeNode(pen, [group, , shape], x, y, width, height, colours, strong) {
  pen.fillStyle = colours.paper;
  pen.strokeStyle = colours[group];
  pen.lineWidth = strong ? 3.5 : 1.8;
  if (shape === "stack") { outline(pen, "box", x + 5, y + 5, width, height); pen.fill(); pen.stroke(); }
  outline(pen, shape, x, y, width, height);
  pen.fill();
  const alpha = pen.globalAlpha;
  pen.globalAlpha = alpha * (strong ? 0.3 : 0.14);
  pen.fillStyle = colours[group];
  pen.fill();
  pen.globalAlpha = alpha;
  pen.stroke();
}

function graphColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "paper", "link", "up", "down", "bad", "warn", ...GROUPS.map(([group]) => `k-${group}`)];
  return Object.fromEntries(names.map(one => [one.replace("k-", ""), style.getPropertyValue(`--${one}`).trim()]));
}

/** Shorten a text to a width. */
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

/** The legend of the groups of kinds in the project, drawn as in the graph. */
function legend() {
  const groups = GROUPS.filter(group => site.index.models.some(([kind]) => groupOf(kind) === group));
  const canvases = groups.map(group => [el("canvas", { width: 68, height: 44, "aria-hidden": "true" }), group]);
  const draw = () => canvases.forEach(([canvas, group]) => {
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, 68, 44);
    pen.setTransform(2, 0, 0, 2, 2, 2);
    shapeNode(pen, group, 0.5, 0.5, 26, 14, graphColours(), false);
  });
  const kinds = group => [...new Set(site.index.models.filter(([kind]) => groupOf(kind) === group).map(([kind]) => site.index.words[kind]))].sort().join(", ");
  return [el("ul", { class: "legend" }, canvases.map(([canvas, group]) => el("li", {}, canvas, kinds(group))),
    el("li", { class: "bad" }, "● failed"), el("li", { class: "warn" }, "● late"), el("li", { class: "up" }, "― ancestors"), el("li", { class: "down" }, "― descendants")), draw];
}

/** The graph of all models on a canvas, at the positions computed when the site was built. */
function wholeGraph(expression) {
  const { models, names } = site.index;
  const layers = models.reduce((most, one) => Math.max(most, one[4]), 0) + 1;
  const heights = Array(layers).fill(0);
  models.forEach(one => { heights[one[4]] += 1; });
  const tallest = Math.max(1, ...heights);
  const nodes = models.map(([, , , , layer, at]) => ({ x: layer * NODE.x, y: ((at + 0.5) / heights[layer]) * tallest * NODE.y }));
  const canvas = el("canvas", { class: "graph", tabindex: 0, role: "application", "aria-label": `Graph of ${models.length} models. Arrows go to parents, readers and neighbors, Enter opens a model; the list below has the same links.` });
  const told = el("p", { role: "status", class: "told" });
  const box = el("input", { type: "search", id: "select", value: expression, placeholder: "+marts.routes, tag:finance, raw.* & ^raw.weather", spellcheck: "false", autocomplete: "off" });
  const problem = el("span", { class: "bad", role: "alert" });
  const list = el("ul", { class: "columns" });
  const [key, drawLegend] = legend();
  canvas.style.height = `min(65vh, ${Math.max(240, tallest * NODE.y + 60)}px)`;
  let view = { x: 0, y: 0, scale: 1 };
  let [over, chosen] = [-1, -1];
  let selected = null;
  let due = false;
  const marks = new Map();
  site.index.failed_audits.forEach(one => marks.set(one[0], "bad"));

  const lineage = () => {
    const one = over >= 0 ? over : chosen;
    return one < 0 ? null : { one, up: above([one]), down: below([one]) };
  };
  const draw = () => {
    due = false;
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const colours = graphColours();
    const pen = canvas.getContext("2d");
    const near = lineage();
    const lit = number => (!selected || selected.has(number)) && (!near || near.up.has(number) || near.down.has(number));
    pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    const edges = (which, colour, alpha, thick) => {
      pen.globalAlpha = alpha;
      pen.strokeStyle = colour;
      pen.lineWidth = thick / Math.min(1, view.scale);
      pen.beginPath();
      models.forEach((model, number) => model[3].forEach(parent => {
        if (parent >= models.length || !which(number, parent)) return;
        const [from, to] = [nodes[parent], nodes[number]];
        const bend = (NODE.x - NODE.width) * 0.6;
        pen.moveTo(from.x + NODE.width, from.y);
        pen.bezierCurveTo(from.x + NODE.width + bend, from.y, to.x - bend, to.y, to.x, to.y);
      }));
      pen.stroke();
      pen.globalAlpha = 1;
    };
    const faint = near || selected;
    edges(() => true, colours.soft, faint ? 0.15 : 0.55, 1.3);
    if (near) {
      edges((number, parent) => near.up.has(number) && near.up.has(parent), colours.up, 1, 2.5);
      edges((number, parent) => near.down.has(number) && near.down.has(parent), colours.down, 1, 2.5);
    } else if (selected) edges((number, parent) => selected.has(number) && selected.has(parent), colours.link, 0.9, 2);
    nodes.forEach((node, number) => {
      const [x, y] = [node.x, node.y - NODE.height / 2];
      pen.globalAlpha = lit(number) ? 1 : 0.22;
      shapeNode(pen, groupOf(models[number][0]), x, y, NODE.width, NODE.height, colours, near && near.one === number);
      if (view.scale >= 0.3) {
        const cut = names[number].lastIndexOf(".");
        pen.fillStyle = colours.ink;
        pen.font = "600 15px system-ui, sans-serif";
        pen.fillText(fitted(pen, names[number].slice(cut + 1), NODE.width - 36), x + 16, y + 20);
        pen.font = "12px system-ui, sans-serif";
        pen.fillStyle = colours.soft;
        pen.fillText(fitted(pen, names[number].slice(0, cut), NODE.width - 36), x + 16, y + 36);
      }
      if (marks.has(number)) {
        pen.fillStyle = colours[marks.get(number)];
        pen.beginPath();
        pen.arc(x + NODE.width - 14, y + 12, 6, 0, 7);
        pen.fill();
      }
      pen.globalAlpha = 1;
    });
  };
  const redraw = () => { if (!due) { due = true; requestAnimationFrame(draw); } };
  const frame = (which, least) => {
    const shown = nodes.filter((_, number) => which.has(number));
    const [left, top] = [Math.min(...shown.map(one => one.x)) - 20, Math.min(...shown.map(one => one.y)) - 40];
    const [width, height] = [Math.max(...shown.map(one => one.x)) + NODE.width + 25 - left, Math.max(...shown.map(one => one.y)) + 45 - top];
    const scale = Math.max(least, Math.min(1.1, canvas.clientWidth / width, canvas.clientHeight / height));
    view = { x: Math.max(0, (canvas.clientWidth - width * scale) / 2) - left * scale, y: Math.max(0, (canvas.clientHeight - height * scale) / 2) - top * scale, scale };
    redraw();
  };
  const all = new Set(models.keys());
  const begin = () => { drawLegend(); if (models.length) frame(selected || all, 0.7); };
  const whole = () => { if (models.length) frame(selected || all, 0.02); };
  const zoom = (by, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) => {
    const scale = Math.min(4, Math.max(0.02, view.scale * by));
    view = { x: x - ((x - view.x) * scale) / view.scale, y: y - ((y - view.y) * scale) / view.scale, scale };
    redraw();
  };
  const tell = number => {
    if (number < 0) { told.replaceChildren("Point at a model to see its lineage, click to keep it. Drag to move, use the wheel or the buttons to zoom."); return; }
    const near = { up: above([number]).size - 1, down: below([number]).size - 1 };
    told.replaceChildren(modelLink(number), ` ${site.index.words[models[number][0]]}, ${some(near.up, "ancestor")}, ${some(near.down, "descendant")}`,
      ownerOf(number) ? `, owner ${ownerOf(number)}` : "", marks.has(number) ? `, ${marks.get(number) === "bad" ? "failed" : "late"}` : "");
  };
  const choose = number => { chosen = number; tell(number); redraw(); };
  const visible = number => {
    const [x, y] = [nodes[number].x * view.scale + view.x, nodes[number].y * view.scale + view.y];
    const [width, height] = [canvas.clientWidth - NODE.width * view.scale, canvas.clientHeight - 30];
    if (x < 0 || y < 30 || x > width || y > height) view = { ...view, x: view.x + Math.max(10, Math.min(width, x)) - x, y: view.y + Math.max(40, Math.min(height, y)) - y };
  };
  const select = () => {
    try {
      const found = box.value.trim() ? selectModels(box.value) : null;
      problem.textContent = "";
      selected = found;
    } catch (error) {
      problem.textContent = error.message;
      return false;
    }
    const listed = [...(selected || all)].sort((one, other) => (names[one] < names[other] ? -1 : 1));
    list.replaceChildren(...listed.slice(0, 300).map(one => el("li", {}, kindMark(models[one][0]), modelLink(one))), ...(listed.length > 300 ? [el("li", { class: "soft" }, `${count(listed.length - 300)} more`)] : []));
    heading.textContent = selected ? `Selected: ${count(listed.length)} of ${count(models.length)} models` : `All ${count(models.length)} models`;
    return true;
  };
  const heading = el("h2");
  box.addEventListener("input", () => {
    if (!select()) return;
    history.replaceState(null, "", box.value.trim() ? `#/graph//${encodeURIComponent(box.value.trim())}` : "#/graph");
    begin();
  });
  const under = event => {
    const [x, y] = [(event.offsetX - view.x) / view.scale, (event.offsetY - view.y) / view.scale];
    return nodes.findIndex(node => x >= node.x && x <= node.x + NODE.width && Math.abs(y - node.y) <= NODE.height / 2);
  };
  const open = number => { location.hash = `#/model/${encodeURIComponent(names[number])}`; };
  let held = null;
  canvas.addEventListener("pointerdown", event => { held = { x: event.clientX, y: event.clientY, view, moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", event => {
    if (held) {
      const [x, y] = [event.clientX - held.x, event.clientY - held.y];
      held.moved = held.moved || Math.abs(x) + Math.abs(y) > 4;
      view = { ...held.view, x: held.view.x + x, y: held.view.y + y };
      redraw();
      return;
    }
    const found = under(event);
    if (found === over) return;
    over = found;
    tell(over >= 0 ? over : chosen);
    redraw();
  });
  canvas.addEventListener("pointerleave", () => { over = -1; tell(chosen); redraw(); });
  canvas.addEventListener("pointerup", event => {
    const clicked = held && !held.moved ? under(event) : null;
    held = null;
    if (clicked !== null) choose(clicked);
  });
  canvas.addEventListener("dblclick", event => { if (under(event) >= 0) open(under(event)); });
  canvas.addEventListener("wheel", event => { event.preventDefault(); zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.offsetX, event.offsetY); }, { passive: false });
  const beside = (number, step) => {
    const layer = [...all].filter(one => models[one][4] === models[number][4]).sort((one, other) => models[one][5] - models[other][5]);
    return layer[layer.indexOf(number) + step];
  };
  canvas.addEventListener("keydown", event => {
    const start = chosen >= 0 ? chosen : [...(selected || all)][0];
    const known = list => list.filter(one => one < models.length)[0];
    const goes = { ArrowLeft: () => known(models[start][3]), ArrowRight: () => known(site.readers[start]), ArrowUp: () => beside(start, -1), ArrowDown: () => beside(start, 1) }[event.key];
    if (goes) { const next = chosen < 0 ? start : goes(); if (next !== undefined) { visible(next); choose(next); } }
    else if (event.key === "Enter" && chosen >= 0) open(chosen);
    else if (event.key === "Escape") choose(-1);
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") whole();
    else return;
    event.preventDefault();
  });
  const again = () => { if (canvas.isConnected) { drawLegend(); redraw(); } else { removeEventListener("resize", again); removeEventListener("colours", again); } };
  addEventListener("resize", again);
  addEventListener("colours", again);
  lateModels().then(late => { late.forEach(one => { if (!marks.has(one.model)) marks.set(one.model, "warn"); }); redraw(); });
  select();
  tell(-1);
  const button = (label, text, act) => el("button", { type: "button", "aria-label": label, onclick: act }, text);
  return {
    title: "Graph",
    broad: true,
    body: [
      el("p", { class: "tools" }, el("label", { for: "select" }, "Select"), box, button("Zoom in", "+", () => zoom(1.25)), button("Zoom out", "−", () => zoom(0.8)), button("Show all", "All", whole), problem),
      key, canvas, told, heading, list,
    ],
    ready: begin,
  };
}
