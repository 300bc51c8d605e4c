"use strict";
// A glossary on hover: the first use of each of its words in a block of text gets its meaning.
(() => {
  const words = new Map([...document.querySelectorAll("dl.glossary div")].map((row) =>
    [row.querySelector("dt").textContent.toLowerCase(), row.querySelector("dd").textContent]));
  const longest = [...words.keys()].sort((a, b) => b.length - a.length);
  // Of each word also the plural, which has the same meaning.
  const forms = longest.map((word) => word.replace(/y$/, "(?:y|ies)")).join("|");
  const pattern = new RegExp(`(?<![\\w.-])(${forms})s?(?![\\w-])`, "i");
  const blocks = "p.lead, p.foot, figcaption, .tile span, .tile small, dl.identity dt, table.results thead th";

  function explain(node, left) {
    const found = pattern.exec(node.data);
    if (!found) return;
    const start = node.splitText(found.index), rest = start.splitText(found[0].length);
    const word = found[1].toLowerCase().replace(/ies$/, "y");
    if (left.delete(word)) {
      const mark = document.createElement("abbr");
      mark.title = words.get(word);
      mark.textContent = found[0];
      start.replaceWith(mark);
    }
    explain(rest, left);
  }

  for (const block of document.querySelectorAll(blocks)) {
    const left = new Set(words.keys()), texts = [];
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) texts.push(walker.currentNode);
    texts.forEach((node) => explain(node, left));
  }
})();
