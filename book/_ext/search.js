// What the search puts first: a statement that is asked for by its number, its name or
// its claim; then pages to read; then what one looks up. The numbers are those of Sphinx, which wants all of them from a file of ours.
const asked = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase();
const askedFor = asked.split(/[()]/).map((part) => part.trim()).filter(Boolean);

const isAskedFor = (title) => {
  const text = new DOMParser().parseFromString(title, "text/html").body.textContent;
  const names = text.toLowerCase().split(" · ");
  return askedFor.every((part) => names.includes(part));
};

const isForReference = (page) => /^book\/(api|benchmarks|bibliography|cite|status)/.test(page);

var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, anchor, kind, score]) => {
    if (title.includes(" · ") && isAskedFor(title)) return score + 1000;
    return isForReference(page) ? score - 100 : score;
  },
};
