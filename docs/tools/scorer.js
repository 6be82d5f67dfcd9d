// How the search orders what it finds: pages that answer a question come before methods of the same name.
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
    if (lessons.test(page)) return score + (anchor ? 5 : 10);
    return score;
  },
};
