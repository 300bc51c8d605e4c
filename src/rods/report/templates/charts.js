"use strict";
// Values under the pointer, for charts that carry their numbers, and the switch between light and dark.
(() => {
  const make = (tag, css, text) => {
    const node = document.createElement(tag);
    if (css) node.className = css;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const short = (v) => v === null || v === undefined ? "–" : Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en")
    : String(+v.toPrecision(3));

  for (const svg of document.querySelectorAll("svg[data-series]")) {
    const data = JSON.parse(svg.dataset.series);
    const [x0, x1, left, right] = data.x;
    const figure = svg.closest("figure");
    const box = svg.viewBox.baseVal;
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("class", "cursor");
    line.setAttribute("y1", 12);
    line.setAttribute("y2", box.height - 38);
    const tip = make("div", "tip");
    const hide = () => { line.remove(); tip.remove(); };
    svg.addEventListener("mouseleave", hide);
    svg.addEventListener("mousemove", (event) => {
      const rect = svg.getBoundingClientRect();
      const px = (event.clientX - rect.left) / rect.width * box.width;
      const wanted = x0 + (px - left) / (right - left) * (x1 - x0);
      let at = null;
      for (const [, , xs] of data.series) for (const x of xs)
        if (at === null || Math.abs(x - wanted) < Math.abs(at - wanted)) at = x;
      if (at === null || px < left - 6 || px > right + 6) return hide();
      const where = left + (at - x0) / (x1 - x0) * (right - left);
      line.setAttribute("x1", where);
      line.setAttribute("x2", where);
      svg.append(line);
      tip.replaceChildren(make("div", "", `${data.label || "x"} ${short(at)}`));
      for (const [name, css, xs, ys] of data.series) {
        const i = xs.indexOf(at);
        if (i < 0) continue;
        const row = make("div");
        row.append(make("i", css), `${name} `, make("b", "", short(ys[i])));
        tip.append(row);
      }
      figure.append(tip);
      const inner = figure.getBoundingClientRect();
      const x = rect.left - inner.left + where / box.width * rect.width;
      tip.style.left = `${x + 14 + tip.offsetWidth > inner.width ? x - 14 - tip.offsetWidth : x + 14}px`;
      tip.style.top = `${rect.top - inner.top + 14}px`;
    });
  }

  const button = document.getElementById("theme");
  button?.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
})();
