// How the search orders what it finds: pages that answer a question come before methods of the same name, and pages whose
// own title or address has all words of the query come first, because Sphinx counts a heading anywhere in a page as much.
// `_static/pages.js` sets `Scorer.query`.
var Scorer = {
  objNameMatch: 8,
  objPartialMatch: 1,
  objPrio: { 0: 1, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 20,
  partialTitle: 12,
  term: 5,
  partialTerm: 2,
  // A word of the glossary counts 100 otherwise, more than the page about it. Lists of everything come last.
  score: ([page, title, anchor, description, score, file, kind]) => {
    const lists = /gallery$|changelog$|command-line$|glossary$|benchmarks$|genindex$|extend$/;
    const lessons = /^(tutorials|how-to|explanation)\/|^faq$|^installation$|^cite$/;
    if (kind === "index" || score > 40) score = Math.min(score, 40) / 2;
    if (lists.test(page)) return score - 15;
    if (lessons.test(page)) return score + (anchor ? 5 : 10) + (Scorer.isAbout(`${page} ${title.split(" > ")[0]}`) ? 16 : 0);
    return score;
  },
  isAbout: (name) => {
    const words = Scorer.query?.toLowerCase().match(/\w{3,}/g) ?? [];
    const stemmer = new Stemmer();
    const isIn = (word) => new RegExp(`(^|[^a-z])${stemmer.stemWord(word)}`).test(name.toLowerCase());
    return words.length > 0 && words.every(isIn);
  },
};
