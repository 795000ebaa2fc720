"use strict";
// Graphs: one step around a model as a picture of links, and the whole on a canvas.

const BOX = { width: 300, height: 30, gap: 10, across: 110 };
const MOST_NEAR = 40;

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Return the picture of a model between its parents and readers. */
function nearGraph(number) {
  const order = list => [...list].sort((one, other) => placed(one) - placed(other));
  const placed = one => (site.index.models[one] || [0, 0, 0, 0, 0, 0])[5];
  const sides = [order(site.index.models[number][3]), [number], order(site.readers[number])];
  const shown = sides.map(side => side.slice(0, MOST_NEAR));
  const tall = Math.max(...shown.map(side => side.length)) * (BOX.height + BOX.gap) + BOX.gap;
  const wide = 3 * BOX.width + 2 * BOX.across + 2 * BOX.gap;
  const left = side => BOX.gap + side * (BOX.width + BOX.across);
  const top = (side, at) => (tall - shown[side].length * (BOX.height + BOX.gap) + BOX.gap) / 2 + at * (BOX.height + BOX.gap);
  const centre = top(1, 0) + BOX.height / 2;
  const edge = (x, y, to, end) => svg("path", { d: `M${x},${y} C${x + BOX.across / 2},${y} ${to - BOX.across / 2},${end} ${to},${end}` });
  const made = svg("svg", { class: "near", viewBox: `0 0 ${wide} ${tall}`, role: "group", "aria-label": `What ${site.index.names[number]} reads, and who reads it` });
  shown[0].forEach((_, at) => made.append(edge(left(0) + BOX.width, top(0, at) + BOX.height / 2, left(1), centre)));
  shown[2].forEach((_, at) => made.append(edge(left(1) + BOX.width, centre, left(2), top(2, at) + BOX.height / 2)));
  shown.forEach((side, which) => side.forEach((one, at) => made.append(box(one, left(which), top(which, at), which === 1))));
  const cut = sides.reduce((sum, side, which) => sum + side.length - shown[which].length, 0);
  return el("div", {}, made, cut ? el("p", { class: "soft" }, `${count(cut)} more are in the lists above.`) : null);
}

function box(number, x, y, here) {
  const name = site.index.names[number];
  const text = name.length > 36 ? `…${name.slice(-35)}` : name;
  const parts = [svg("title", {}, name), svg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 5 }), svg("text", { x: x + 10, y: y + 20 }, text)];
  if (here || number >= site.index.models.length) return svg("g", { class: here ? "here" : "" }, ...parts);
  return svg("a", { href: `#/model/${encodeURIComponent(name)}` }, ...parts);
}

site.routes.graph = name => {
  if (name === undefined || name === "") return wholeGraph();
  const number = numbered(name);
  if (number < 0) return missing(name);
  return { title: `Around ${name}`, body: [el("p", {}, link(["model", name], "Its page"), " · ", link(["graph"], "The whole graph")), nearGraph(number)] };
};

/** The whole graph where it was laid out when the site was built; it is drawn on a canvas. */
function wholeGraph() {
  const { models, names } = site.index;
  const layers = models.reduce((most, one) => Math.max(most, one[4]), 0) + 1;
  const heights = Array(layers).fill(0);
  models.forEach(one => { heights[one[4]] += 1; });
  const tallest = Math.max(1, ...heights);
  const nodes = models.map(([, , , , layer, at]) => ({ x: layer * 260, y: ((at + 0.5) / heights[layer]) * tallest * 26 }));
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": `Graph of ${models.length} models. Arrows move, plus and minus zoom; the list of models has the same links.` });
  const told = el("p", { role: "status", class: "soft" }, "Drag or use arrows to move, the wheel or + and - to zoom, 0 to see all; a click opens a model.");
  let view = { x: 0, y: 0, scale: 1 };
  let over = -1;
  let due = false;

  const draw = () => {
    due = false;
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const style = getComputedStyle(document.documentElement);
    const [ink, soft, paper, own] = ["--ink", "--soft", "--paper", "--link"].map(one => style.getPropertyValue(one).trim());
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    const edges = (which, colour, alpha, thick) => {
      pen.globalAlpha = alpha;
      pen.strokeStyle = colour;
      pen.lineWidth = thick / view.scale;
      pen.beginPath();
      models.forEach((model, number) => model[3].forEach(parent => {
        if (parent >= models.length || !which(number, parent)) return;
        const [from, to] = [nodes[parent], nodes[number]];
        pen.moveTo(from.x + 180, from.y);
        pen.bezierCurveTo(from.x + 220, from.y, to.x - 40, to.y, to.x, to.y);
      }));
      pen.stroke();
      pen.globalAlpha = 1;
    };
    edges(() => true, soft, 0.35, 1);
    if (over >= 0) edges((number, parent) => number === over || parent === over, own, 1, 2);
    pen.font = "11px system-ui, sans-serif";
    nodes.forEach((node, number) => {
      pen.fillStyle = paper;
      pen.strokeStyle = number === over ? own : soft;
      pen.lineWidth = (number === over ? 2 : 1) / view.scale;
      pen.beginPath();
      pen.rect(node.x, node.y - 9, 180, 18);
      pen.fill();
      pen.stroke();
      if (view.scale < 0.4) return;
      pen.fillStyle = ink;
      const name = names[number];
      pen.fillText(name.length > 32 ? `…${name.slice(-31)}` : name, node.x + 5, node.y + 4);
    });
  };
  const redraw = () => { if (!due) { due = true; requestAnimationFrame(draw); } };
  const whole = () => {
    const [width, height] = [layers * 260, tallest * 26 + 20];
    const scale = Math.min(1.2, canvas.clientWidth / width, canvas.clientHeight / height);
    view = { x: (canvas.clientWidth - width * scale) / 2 + 40 * scale, y: (canvas.clientHeight - height * scale) / 2 + 10 * scale, scale };
    redraw();
  };
  const zoom = (by, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) => {
    const scale = Math.min(4, Math.max(0.02, view.scale * by));
    view = { x: x - ((x - view.x) * scale) / view.scale, y: y - ((y - view.y) * scale) / view.scale, scale };
    redraw();
  };
  const under = event => {
    const [x, y] = [(event.offsetX - view.x) / view.scale, (event.offsetY - view.y) / view.scale];
    return nodes.findIndex(node => x >= node.x && x <= node.x + 180 && Math.abs(y - node.y) <= 9);
  };
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
    if (over >= 0) told.textContent = names[over];
    redraw();
  });
  canvas.addEventListener("pointerup", event => {
    const clicked = held && !held.moved ? under(event) : -1;
    held = null;
    if (clicked >= 0) location.hash = `#/model/${encodeURIComponent(names[clicked])}`;
  });
  canvas.addEventListener("wheel", event => { event.preventDefault(); zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.offsetX, event.offsetY); }, { passive: false });
  canvas.addEventListener("keydown", event => {
    const move = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (move) view = { ...view, x: view.x + move[0], y: view.y + move[1] };
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") whole();
    else return;
    event.preventDefault();
    redraw();
  });
  const again = () => { if (canvas.isConnected) redraw(); else { removeEventListener("resize", again); removeEventListener("colours", again); } };
  addEventListener("resize", again);
  addEventListener("colours", again);
  return { title: "Graph", body: [told, canvas, el("p", {}, link([""], "The same as a list"))], ready: whole };
}
