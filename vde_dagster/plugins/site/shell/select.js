"use strict";
// Selection of models by the expressions of `vde plan --select`, without `git:`.

/** Return models with all models that are reached from them by steps. */
function reached(from, step) {
  const found = new Set(from);
  for (const one of found) step(one).forEach(each => { if (each < site.index.models.length) found.add(each); });
  return found;
}

const above = from => reached(from, one => site.index.models[one][3]);
const below = from => reached(from, one => site.readers[one]);

/** Return the regular expression of a glob. */
function glob(text) {
  const parts = text.match(/\*|\?|\[!?\]?[^\]]*\]|[^*?[]+|\[/gs) || [];
  return new RegExp(`^${parts.map(one => {
    if (one === "*") return ".*";
    if (one === "?") return ".";
    if (one.length > 2 && one[0] === "[") return `[${one.slice(1, -1).replace(/^!/, "^").replace(/\\|\]|\[/g, "\\$&")}]`;
    return one.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  }).join("")}$`, "s");
}

/** Return the numbers of the selected models; patterns are separated by commas. Throws if a pattern is invalid. */
function selectModels(text) {
  const all = new Set(site.index.models.keys());
  const patterns = text.split(",").map(one => one.trim()).filter(Boolean);
  if (!patterns.length) return all;
  const [chosen, dropped] = [new Set(), new Set()];
  let negative = true;
  for (const pattern of patterns) {
    const without = "-!".includes(pattern[0]);
    negative = negative && without;
    new Selection(pattern.slice(without ? 1 : 0)).read().forEach(one => (without ? dropped : chosen).add(one));
  }
  return new Set([...(negative ? all : chosen)].filter(one => !dropped.has(one)));
}

class Selection {
  constructor(text) {
    this.text = text;
    this.tokens = [...text.matchAll(/\s*([&|^()]|[^\s&|^()]+)/g)].map(one => one[1]).reverse();
  }

  read() {
    const found = this.either();
    if (this.tokens.length) throw new Error(`“${this.next()}” is unexpected`);
    if (!found.size) throw new Error(`no model matches “${this.text.trim()}”`);
    return found;
  }

  next() { return this.tokens[this.tokens.length - 1]; }

  take(token) { return this.next() === token && Boolean(this.tokens.pop()); }

  either() {
    let found = this.both();
    while (this.take("|")) found = new Set([...found, ...this.both()]);
    return found;
  }

  both() {
    let found = this.term();
    while (this.take("&")) {
      const other = this.term();
      found = new Set([...found].filter(one => other.has(one)));
    }
    return found;
  }

  term() {
    if (this.take("^")) {
      const without = this.term();
      return new Set([...site.index.models.keys()].filter(one => !without.has(one)));
    }
    const up = this.next() === "+" && this.tokens[this.tokens.length - 2] === "(";
    if (up) this.tokens.pop();
    if (this.take("(")) {
      const found = this.either();
      if (!this.take(")")) throw new Error("a bracket is not closed");
      return this.widened(found, up, this.take("+"));
    }
    const word = this.next();
    if (word === undefined || "&|)+".includes(word)) throw new Error(word === undefined ? "a name is missing" : `“${word}” has no name`);
    this.tokens.pop();
    return this.widened(this.match(word.replace(/^\++|\++$/g, "")), word[0] === "+", word[word.length - 1] === "+");
  }

  widened(found, up, down) {
    return new Set([...found, ...(up ? above(found) : []), ...(down ? below(found) : [])]);
  }

  match(text) {
    const { models, names, words: texts } = site.index;
    if (text.startsWith("git:")) throw new Error("git: works on the command line only");
    const pattern = glob((text.startsWith("tag:") ? text.slice(4) : text).toLowerCase());
    const is = text.startsWith("tag:")
      ? one => models[one][7].some(tag => pattern.test(texts[tag].toLowerCase()))
      : one => pattern.test(names[one]);
    return new Set([...models.keys()].filter(is));
  }
}
