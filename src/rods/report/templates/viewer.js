"use strict";
// The viewer of trajectories. Text of models is set as text (textContent), never as markup.
(() => {
  const data = JSON.parse(document.getElementById("trajectories").textContent);
  const nav = document.getElementById("tasks");
  const pane = document.getElementById("pane");
  if (!nav || !data.groups.length) return;
  const official = pane.dataset.official;  // whether the environment has such a verdict
  let group = 0, member = 0, tokens = false;

  const make = (tag, css, ...children) => {
    const node = document.createElement(tag);
    if (css) node.className = css;
    node.append(...children.filter((c) => c !== null && c !== undefined));
    return node;
  };
  const button = (current, action, ...children) => {
    const node = make("button", "", ...children);
    node.type = "button";
    node.setAttribute("aria-current", String(current));
    node.addEventListener("click", action);
    return node;
  };
  const badge = (good, text) => make("span", `badge ${good === null ? "flat" : good ? "good" : "bad"}`, text);
  const signed = (number) => (number < 0 ? "" : "+") + number.toFixed(3);
  const fact = (name, value) => make("span", "", `${name} `, make("b", "", value));

  function drawTasks() {
    nav.replaceChildren(...data.groups.map((g, i) => {
      const dots = make("div", "dots", ...g.members.map((m) => {
        const dot = make("i");
        dot.style.opacity = m.failure ? 0.1 : 0.15 + 0.85 * m.progress;
        dot.title = `member ${m.member}: progress ${m.progress.toFixed(2)}`;
        return dot;
      }));
      const line = [g.category, g.origin, g.region].filter(Boolean).join(" · ");
      const mean = g.mean === null ? "all invalid" : `mean progress ${g.mean.toFixed(2)}`;
      return button(i === group, () => { group = i; member = 0; draw(); }, g.task,
        make("small", "", line || "not judged"), make("small", "", `policy version ${g.version} · ${mean}`), dots);
    }));
  }

  function turnLine(m, index) {
    const v = m.turns[index];
    const row = make("div", "turn", `turn ${index + 1} of ${m.n_turns}`);
    if (!v) row.append(badge(null, "not judged"));
    else {
      row.append(badge(v.solved, v.solved ? "solved" : "not solved"));
      row.append(v.correct !== null ? `answer ${v.correct ? "right" : "wrong"}`
        : v.expects_calls ? `state ${v.state ? "right" : "wrong"}, results ${v.executed ? "right" : "wrong"}`
        : "no call expected", `, ${v.calls} call${v.calls === 1 ? "" : "s"}${official ? `, official verdict ${v.official ? "passes" : "fails"}` : ""}`);
    }
    return row;
  }

  function messageBox(msg) {
    const who = make("div", "who", msg.role);
    if (msg.verdict) who.append(make("span", "", `verdict: ${msg.verdict.replaceAll("_", " ")}`),
      make("span", "", `${msg.tokens} tokens`), make("span", "", `finish: ${msg.finish}`));
    const box = make("div", `msg ${msg.role}`, who, make("pre", "", msg.content || (msg.role === "user" ? "(no text)" : "")));
    if (msg.calls.length) {
      box.append(make("ol", "", ...msg.calls.map((call, i) => {
        const failed = (msg.failed || [])[i];
        return make("li", failed ? "failed" : "", call, failed ? "  — failed" : null,
          (msg.results || [])[i] ? make("pre", "", msg.results[i]) : null);
      })));
    }
    if (msg.bad) who.append(badge(false, "not executed"));
    return box;
  }

  function conversation(m) {
    const nodes = [];
    let turn = null;
    for (const msg of m.messages) {
      if (msg.turn !== null && msg.turn !== turn) { turn = msg.turn; nodes.push(turnLine(m, turn)); }
      nodes.push(messageBox(msg));
    }
    return nodes;
  }

  function tokenText(m) {
    return make("div", "tokens", ...m.spans.map((s) => {
      const node = make("span", s.policy ? "policy" : "env", s.text === null ? `${s.n} environment tokens` : s.text);
      if (s.text === null) node.classList.add("blank");
      node.title = `${s.n} ${s.policy ? "policy tokens: they carry loss" : "environment tokens: masked"}`
        + (s.logprob === null ? "" : `, mean log-probability ${s.logprob}`)
        + (s.advantage === null ? "" : `, mean advantage ${signed(s.advantage)}`);
      return node;
    }));
  }

  function draw() {
    drawTasks();
    const g = data.groups[group], m = g.members[member];
    const sampled = m.spans.filter((s) => s.policy).reduce((n, s) => n + s.n, 0);
    const total = m.spans.reduce((n, s) => n + s.n, 0);
    const members = make("div", "members", make("small", "", "member: progress"), ...g.members.map((other, i) =>
      button(i === member, () => { member = i; draw(); }, `${other.member}: ${other.failure ? "invalid" : other.progress.toFixed(2)}`)));
    const facts = make("div", "facts", fact("progress", m.progress.toFixed(3)), badge(m.solved, m.solved ? "solved" : "not solved"),
      official ? badge(m.official, m.official ? "official verdict passes" : "official verdict fails") : "", fact("stop reason", m.stop), fact("policy tokens", sampled),
      fact("environment tokens", total - sampled), fact("seconds", m.seconds), fact("temperature", m.temperature));
    if (m.signal) {
      const parts = Object.entries(m.signal.reward_parts).map(([name, value]) => `${name} ${value.toFixed(3)}`);
      const some = m.spans.map((s) => s.advantage).filter((a) => a !== null);
      const ends = [...new Set([Math.min(...some), Math.max(...some)].map(signed))];
      if (m.signal.reward !== null) facts.append(fact("reward", m.signal.reward.toFixed(3) + (parts.length ? ` (${parts.join(", ")})` : "")));
      facts.append(fact("advantage", some.length ? ends.join(" to ") : "none"));
    }
    if (m.cut) facts.append(fact("shortened results", m.cut));
    if (m.failure) facts.append(badge(false, `invalid: ${m.failure}`));
    const strip = make("div", "strip", ...m.spans.map((s) => {
      const part = make("i", s.policy ? "" : "env");
      part.style.flexGrow = s.n;
      part.title = `${s.n} ${s.policy ? "policy" : "environment"} tokens`;
      return part;
    }));
    const toggle = button(tokens, () => { tokens = !tokens; draw(); }, tokens ? "show messages" : "show tokens");
    members.append(toggle);
    pane.replaceChildren(members, facts, strip, ...(tokens ? [tokenText(m)] : conversation(m)));
    pane.scrollTop = 0;
  }
  draw();
})();
