// The sliders of *Try it*: answers that were computed when the page was built (book/_tools/tried.py).
// Without this script the answer to the default values stands in the page. With it, nothing is told before it is
// asked for, since the page has said "guess first"; who unticks that sees each answer at once.
for (const place of document.querySelectorAll(".tried")) {
  const {grid, now, answers} = JSON.parse(place.dataset.tried);
  const names = Object.keys(grid);
  const chosen = names.map((name) =>
    Math.max(0, grid[name].findIndex((value) => value === now[name] || Number(value) === Number(now[name]))));
  const make = (kind, properties = {}, ...inside) => {
    const made = Object.assign(document.createElement(kind), properties);
    made.append(...inside);
    return made;
  };
  const answer = make("pre", {ariaLive: "polite"});
  const guess = make("input", {type: "checkbox", checked: true});
  const reveal = make("button", {type: "button", textContent: "Show the answer"});
  const at = () => names.reduce((k, name, i) => k * grid[name].length + chosen[i], 0);
  const show = () => {
    answer.textContent = answers[at()].trimEnd();
    answer.hidden = false;
    reveal.hidden = true;
  };
  const changed = () => {
    if (!guess.checked) return show();
    answer.hidden = true;
    reveal.hidden = false;
  };
  const rows = names.filter((name) => grid[name].length > 1).map((name) => {
    const i = names.indexOf(name);
    const plain = (value) => value.replace(/^["']|["']$/g, "");
    const slides = grid[name].every((value) => !Number.isNaN(Number(value)));
    const said = make("output", {textContent: plain(grid[name][chosen[i]])});
    const input = slides
      ? make("input", {type: "range", min: 0, max: grid[name].length - 1, value: chosen[i]})
      : make("select", {}, ...grid[name].map((value, k) =>
          make("option", {value: k, textContent: plain(value), selected: k === chosen[i]})));
    input.addEventListener("input", () => {
      chosen[i] = Number(input.value);
      said.textContent = plain(grid[name][chosen[i]]);
      if (slides) input.setAttribute("aria-valuetext", said.textContent);
      changed();
    });
    return make("label", {}, make("code", {textContent: name}), input, ...(slides ? [said] : []));
  });
  guess.addEventListener("change", changed);
  reveal.addEventListener("click", show);
  const colab = document.querySelector('a[href*="colab.research.google.com/github"]');
  const note = make("p", {className: "tried-note"},
    "Computed when this page was built. ",
    colab ? make("a", {href: colab.href, textContent: "Open it in Colab"}) : "Run the page",
    " for any other values.");
  place.append(...rows, make("label", {}, guess, " Guess first"), answer, reveal, note);
  const outputs = place.closest(".cell_output");
  for (const other of outputs ? outputs.querySelectorAll(".output.stream") : []) other.hidden = true;
  changed();
}
