// Folds: a link into one opens it, and in print all stand open but what Coq reads. Paper is light. The menu
// that prints a page prints its story alone, too.
(() => {
  const place = () => {
    try {
      return document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return null; // an address that is no text
    }
  };

  // Open what hides the place that the address names; the fold itself may be that place.
  const reveal = () => {
    const target = place();
    let hidden = false;
    for (let node = target; node; node = node.parentElement) {
      if (node.matches("details:not([open])")) {
        node.open = true;
        hidden = true;
      }
    }
    // on the status page a claim is a heading, and a fold below it
    if (target?.id.startsWith("status-")) {
      for (const fold of target.closest("section").querySelectorAll(":scope > details")) fold.open = true;
    }
    if (hidden) target.scrollIntoView();
  };

  // Browsers tell of a new address, but not of a second click on the same link.
  const follow = (event) => {
    const link = event.target.closest?.("a[href]");
    if (link?.hash && link.href === location.href) reveal();
  };

  let opened = [];
  let theme = "";
  const openAll = () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    opened = [...document.querySelectorAll(".bd-article details:not([open]):not(.formal)")];
    for (const fold of opened) fold.open = true;
    for (const image of document.querySelectorAll(".bd-article img")) image.loading = "eager";
    const raw = [...document.querySelectorAll(".math")].filter((f) => !f.querySelector("mjx-container"));
    if (raw.length) window.MathJax?.typeset?.(raw);
  };
  const closeAgain = () => {
    document.documentElement.dataset.theme = theme;
    document.documentElement.classList.remove("print-story");
    for (const fold of opened) fold.open = false;
    opened = [];
  };

  const whole = document.querySelector(".btn-download-pdf-button");
  if (whole && document.getElementById("in-depth")) {
    const item = whole.parentElement.cloneNode(true);
    const story = item.querySelector("button");
    story.title = "Print the story to PDF, without depth, folds, checks and solutions";
    story.querySelector(".btn__text-container").textContent = "story .pdf";
    story.onclick = () => {
      document.documentElement.classList.add("print-story");
      window.print();
    };
    whole.parentElement.after(item);
  }

  addEventListener("hashchange", reveal);
  addEventListener("click", follow);
  addEventListener("beforeprint", openAll);
  addEventListener("afterprint", closeAgain);
  reveal();
})();
