// Charts as SVG: lines, points and bars over one axis, with a legend that reads the values.
//
// Rule: a chart is always drawn completely from its data, colours are the style's variables, and no two labels
// of an axis touch, however narrow the page is.
"use strict";
const Chart = (() => {
  const LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 26; // pixels around the plot
  const GAP = 12; // between two labels
  const CHARACTER = 7.2; // pixels, of a digit at 12 pixels and a little more
  const DASHES = { solid: "", dashed: "8 5", dotted: "2 4" };
  const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

  function make(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  function colored(element, stroke, fill) {
    element.style.stroke = stroke ? `var(${stroke})` : "none"; // by a style, so that it follows the colour scheme
    element.style.fill = fill ? `var(${fill})` : "none";
    return element;
  }

  // Round numbers from low to high: `most` of them, or fewer.
  function ticks(low, high, most, time) {
    const raw = Math.max((high - low) / most, 1e-12);
    const size = 10 ** Math.floor(Math.log10(raw));
    const step = time
      ? SECONDS.find((s) => s >= raw) ?? Math.ceil(raw / 86400) * 86400
      : [1, 2, 5, 10].map((n) => n * size).find((s) => s >= raw * (1 - 1e-9));
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) {
      found.push(Number((n * step).toPrecision(12)));
    }
    return found;
  }

  // Labels of the lower axis with the places they take: as many as fit.
  function labels(low, high, width, to, options) {
    for (let most = Math.max(1, Math.floor(width / 40)); ; most--) {
      const at = ticks(low, high, most, options.time);
      const texts = options.xs(at);
      const placed = at
        .map((x, i) => ({ x: to(x), text: texts[i] }))
        .filter(({ text }) => text !== "")
        .map(({ x, text }) => {
          const half = (text.length * CHARACTER) / 2;
          return { text, half, x: Math.min(Math.max(x, half), LEFT + width + RIGHT - half) };
        });
      const fits = placed.every((label, i) => !i || label.x - label.half >= placed[i - 1].x + placed[i - 1].half + GAP);
      if (fits || most === 1) return fits ? placed : placed.slice(0, 1);
    }
  }

  return class {
    constructor(place) {
      this.place = place;
      this.legend = document.createElement("ul");
      this.legend.className = "legend";
      this.legend.setAttribute("aria-hidden", "true"); // its numbers are in the table
      this.plot = make("svg", { class: "plot" });
      this.at = null;
      place.replaceChildren(this.legend, this.plot);
      this.plot.addEventListener("pointermove", (event) => this.#point(event));
      this.plot.addEventListener("pointerleave", () => this.#read(null));
    }

    show(data, options) {
      this.data = data;
      this.options = options;
      this.#label();
      this.draw();
    }

    draw() {
      const [xs, ...lines] = this.data;
      const { options } = this;
      const width = Math.max(40, this.place.clientWidth - LEFT - RIGHT);
      const full = options.height ?? 240;
      const height = full - TOP - BOTTOM;
      const values = lines.flat().filter((y) => y !== null && y !== undefined);
      const range = (...found) => (Array.isArray(options.range) ? options.range : options.range(...found));
      const [low, high] = range(values.length ? Math.min(...values) : null, values.length ? Math.max(...values) : null);
      const [first, last] = options.x?.range ?? [xs[0], xs[xs.length - 1]];
      this.x = (x) => LEFT + (last > first ? ((x - first) / (last - first)) * width : width / 2);
      this.y = (y) => TOP + height - (high > low ? ((y - low) / (high - low)) * height : 0);
      const parts = [];
      const levels = ticks(low, high, Math.max(2, Math.floor(height / 36)), false);
      const named = options.ys(levels);
      levels.forEach((level, i) => {
        const y = Math.round(this.y(level)) + 0.5;
        parts.push(make("line", { class: "grid", x1: LEFT, x2: LEFT + width, y1: y, y2: y }));
        if (named[i] !== "") parts.push(make("text", { class: "y", x: LEFT - 8, y: y + 4, "text-anchor": "end" }, named[i]));
      });
      for (const label of labels(first, last, width, this.x, options)) {
        parts.push(make("text", { class: "x", x: label.x, y: full - 8, "text-anchor": "middle" }, label.text));
      }
      for (const x of options.marks ?? []) {
        if (x >= first && x <= last) parts.push(colored(make("line", { class: "mark", x1: this.x(x), x2: this.x(x), y1: TOP, y2: TOP + height, "stroke-width": 1.5, "stroke-dasharray": "3 3" }), "--bad"));
      }
      options.lines.forEach((line, k) => parts.push(...this.#line(line, xs, lines[k], width, TOP + height)));
      this.cursor = make("g", { class: "cursor" });
      this.plot.setAttribute("viewBox", `0 0 ${LEFT + width + RIGHT} ${full}`);
      this.plot.setAttribute("height", full);
      this.plot.replaceChildren(...parts, this.cursor);
      this.#read(this.at !== null && this.at < xs.length ? this.at : null);
    }

    #line(line, xs, ys, width, bottom) {
      const points = xs.map((x, i) => [x, ys[i]]).filter(([, y]) => y !== null && y !== undefined).map(([x, y]) => [this.x(x), this.y(y)]);
      if (line.bars) {
        const wide = Math.min(60, (0.7 * width) / xs.length);
        return points.map(([x, y]) => colored(make("rect", { x: x - wide / 2, y, width: wide, height: Math.max(0, bottom - y), "fill-opacity": 0.3, "stroke-width": line.width ?? 1 }), line.color, line.color));
      }
      const path = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
      const parts = [];
      if (line.fill && points.length) {
        const area = `${path}L${points[points.length - 1][0].toFixed(1)} ${bottom}L${points[0][0].toFixed(1)} ${bottom}Z`;
        parts.push(colored(make("path", { d: area, "fill-opacity": 0.14 }), null, line.color));
      }
      parts.push(colored(make("path", { class: "line", d: path, "stroke-width": line.width ?? 2, "stroke-dasharray": DASHES[line.dash ?? "solid"], "stroke-linejoin": "round" }), line.color));
      if (line.points || points.length === 1) {
        parts.push(...points.map(([x, y]) => colored(make("circle", { cx: x, cy: y, r: 3.5 }), null, line.color)));
      }
      return parts;
    }

    #label() {
      const { lines } = this.options;
      if (this.values?.length === lines.length) return;
      this.values = lines.map(() => document.createElement("b"));
      this.legend.replaceChildren(...lines.map((line, k) => {
        const sample = make("svg", { width: 26, height: 10 }, colored(make("path", { d: "M1 5h24", "stroke-width": 2.5, "stroke-dasharray": DASHES[line.dash ?? "solid"] }), line.color));
        const item = document.createElement("li");
        item.append(sample, line.label, this.values[k]);
        return item;
      }));
    }

    #point(event) {
      const box = this.plot.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * this.plot.viewBox.baseVal.width;
      const away = this.data[0].map((at) => Math.abs(this.x(at) - x));
      this.#read(away.indexOf(Math.min(...away)));
    }

    // The values at a point, or the newest where it is null and x is time or a count.
    #read(at) {
      this.at = at;
      const [xs, ...lines] = this.data;
      const i = at ?? xs.length - 1;
      this.options.lines.forEach((line, k) => {
        const text = at === null && this.options.still ? "" : line.value(lines[k][i]);
        if (this.values[k].textContent !== text) this.values[k].textContent = text;
      });
      if (at === null) return this.cursor.replaceChildren();
      const dots = this.options.lines
        .map((line, k) => [line, lines[k][i]])
        .filter(([, y]) => y !== null && y !== undefined)
        .map(([line, y]) => colored(make("circle", { cx: this.x(xs[i]), cy: this.y(y), r: 3.5 }), null, line.color));
      const full = this.options.height ?? 240;
      const line = make("line", { class: "grid", x1: this.x(xs[i]), x2: this.x(xs[i]), y1: TOP, y2: full - BOTTOM });
      return this.cursor.replaceChildren(line, ...dots);
    }
  };
})();
