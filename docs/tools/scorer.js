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
};
