"use strict";
// Draws the plotly figures in the colors of the style sheet, again when those or a chart's width change.
(async () => {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll(".plot")].map((node) => ({ node, ...JSON.parse(node.dataset.figure) }));
  const say = (text) => { for (const { node } of plots) node.textContent = text; };

  async function load() {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
    const script = document.createElement("script");
    script.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    document.head.append(script);
  }

  const merge = (base, more) => {
    const out = { ...base };
    for (const [key, value] of Object.entries(more))
      out[key] = value && base[key] && value.constructor === Object ? merge(base[key], value) : value;
    return out;
  };
  // plotly knows no variables of style sheets.
  const inks = (part, style) => JSON.parse(JSON.stringify(part), (_, value) =>
    typeof value === "string" && /^var\(--\w+\)$/.test(value) ? style.getPropertyValue(value.slice(4, -1)).trim() : value);
  const axis = { color: "var(--soft)", gridcolor: "var(--grid)", linecolor: "var(--line)", zeroline: false, nticks: 7,
    title: { font: { size: 11.5 }, standoff: 6 }, tickfont: { size: 11.5 } };
  const base = {
    autosize: false, showlegend: false, hovermode: "x unified", paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",  // a finger scrolls the page
    margin: { l: 44, r: 14, t: 10, b: 40 }, height: 240,
    font: { family: 'system-ui, "DejaVu Sans", sans-serif', size: 11.5, color: "var(--soft)" },
    hoverlabel: { bgcolor: "var(--card)", bordercolor: "var(--line)", font: { color: "var(--ink)", size: 12 }, namelength: -1 },
    xaxis: { ...axis, showgrid: false, showline: true, ticks: "outside", tickcolor: "var(--line)", ticklen: 4 },
    yaxis: { ...axis, nticks: 6, automargin: true },
  };

  function draw(plot) {
    const width = plot.node.clientWidth;
    if (!width) return;  // within closed details
    const { data, layout } = inks({ data: plot.data, layout: merge(base, plot.layout) }, getComputedStyle(root));
    // plotly would turn labels that do not fit, and the turned ones are cut off.
    if (layout.xaxis.nticks) layout.xaxis.nticks = Math.min(layout.xaxis.nticks, Math.max(2, Math.floor(width / 60)));
    const names = layout.yaxis.ticktext;
    if (names && width < 420) {  // names of rows on two lines leave room for the rows
      layout.yaxis.ticktext = names.map((name) => name.length > 24 ? name.replace(/^(.{10,24}) /, "$1<br>") : name);
      if (names.some((name) => name.length > 24)) layout.height *= 1.45;
    }
    for (const trace of data) if (plot.hidden?.has(trace.name)) trace.visible = "legendonly";
    Plotly.react(plot.node, data, { ...layout, width }, { displayModeBar: false, displaylogo: false });
  }

  function legend(plot) {
    plot.hidden = new Set();
    for (const button of plot.node.closest("figure").querySelectorAll(".legend button"))
      button.addEventListener("click", () => {
        const name = button.dataset.name;
        if (!plot.hidden.delete(name)) plot.hidden.add(name);
        button.setAttribute("aria-pressed", String(!plot.hidden.has(name)));
        draw(plot);
      });
  }

  const all = () => plots.forEach(draw);
  document.getElementById("theme")?.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    if (globalThis.Plotly) all();
  });
  if (!plots.length) return;
  if (!globalThis.DecompressionStream) return say("The charts need a browser of 2023 or later.");
  await load();
  const seen = new ResizeObserver((entries) => entries.forEach(({ target }) => draw(plots.find((p) => p.node === target))));
  for (const plot of plots) { legend(plot); seen.observe(plot.node); }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  matchMedia("print").addEventListener("change", all);
})();
