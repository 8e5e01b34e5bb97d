// Folds: a link into one opens it, and in print all stand open. Paper is light.
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
    opened = [...document.querySelectorAll(".bd-article details:not([open])")];
    for (const fold of opened) fold.open = true;
    const raw = [...document.querySelectorAll(".math")].filter((f) => !f.querySelector("mjx-container"));
    if (raw.length) window.MathJax?.typeset?.(raw);
  };
  const closeAgain = () => {
    document.documentElement.dataset.theme = theme;
    for (const fold of opened) fold.open = false;
    opened = [];
  };

  addEventListener("hashchange", reveal);
  addEventListener("click", follow);
  addEventListener("beforeprint", openAll);
  addEventListener("afterprint", closeAgain);
  reveal();
})();
