// What the search puts first: a statement that is asked for by its number, its name or
// its claim. The numbers are those of Sphinx, which wants all of them from a file of ours.
const asked = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase();
const askedFor = asked.split(/[()]/).map((part) => part.trim()).filter(Boolean);

const isAskedFor = (title) => {
  const text = new DOMParser().parseFromString(title, "text/html").body.textContent;
  const names = text.toLowerCase().split(" · ");
  return askedFor.every((part) => names.includes(part));
};

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, anchor, kind, score]) =>
    title.includes(" · ") && isAskedFor(title) ? score + 1000 : score,
};
