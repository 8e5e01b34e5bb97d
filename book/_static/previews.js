// A link to a statement or to an equation shows it, while the pointer rests on the link
// or the keyboard has reached it. Escape closes it. Not on touch; no reader needs it.
(() => {
  const article = document.querySelector(".bd-article");
  if (!article || !window.matchMedia("(hover: hover)").matches) return;
  const SHOWN = /^#(theorem|lemma|proposition|corollary|definition|algorithm|claim|eq)-/;
  const WAIT = 250; // ms: a pointer that only passes opens nothing
  const frame = document.createElement("div");
  frame.className = "preview";
  frame.hidden = true;
  frame.ariaHidden = "true"; // the link says where it leads
  article.append(frame);
  const kept = new Map(); // pages that were fetched
  let timer = 0;
  let wanted = null; // the link of which a preview is shown, or will be

  const fetched = async (path) => {
    const answer = await fetch(path);
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  };

  // A page on a disk may not fetch another: then there is no preview.
  const pageOf = async (link) => {
    if (link.pathname === location.pathname) return document;
    if (location.protocol === "file:") return null;
    if (!kept.has(link.pathname)) kept.set(link.pathname, fetched(link.pathname));
    return kept.get(link.pathname);
  };

  const inView = (box) => {
    const {top, bottom, height} = box.getBoundingClientRect();
    return height > 0 && top >= 0 && bottom <= window.innerHeight;
  };

  const copyOf = async (link) => {
    const page = await pageOf(link);
    const box = page?.getElementById(link.hash.slice(1));
    if (!box || (page === document && inView(box))) return null;
    const copy = document.importNode(box, true);
    for (const part of [copy, ...copy.querySelectorAll("[id]")]) part.removeAttribute("id");
    copy.inert = true; // the keyboard stays in the text
    return copy;
  };

  const place = (link) => {
    const at = link.getBoundingClientRect();
    const {width, height} = frame.getBoundingClientRect();
    const below = at.bottom + height < window.innerHeight;
    frame.style.top = `${below ? at.bottom : Math.max(0, at.top - height)}px`;
    frame.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - width - 24))}px`;
  };

  const show = async (link) => {
    const copy = await copyOf(link);
    if (!copy || wanted !== link) return;
    frame.replaceChildren(copy);
    frame.hidden = false;
    if (!copy.querySelector("mjx-container")) await window.MathJax?.typesetPromise?.([copy]);
    place(link);
  };

  const hide = () => {
    clearTimeout(timer);
    wanted = null;
    frame.hidden = true;
  };

  const notice = (event) => {
    clearTimeout(timer);
    const link = event.target.closest?.(".bd-article a[href*='#']:not(.headerlink)");
    if (frame.contains(event.target) || (link && link === wanted)) return;
    if (link && SHOWN.test(link.hash)) {
      wanted = link;
      timer = setTimeout(() => show(link).catch(hide), WAIT);
    } else if (wanted) timer = setTimeout(hide, WAIT);
  };

  document.addEventListener("pointerover", notice);
  document.addEventListener("focusin", notice);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  window.addEventListener("scroll", hide, {passive: true});
})();
