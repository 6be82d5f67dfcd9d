// Search the built pages without a browser: `node docs/tools/search.js BUILT < queries.json` prints the pages of each query,
// the best first, as JSON. Sphinx's own script ranks them, with this site's synonyms and order.
const fs = require("fs");
const vm = require("vm");

const built = process.argv[2];
const page = {
  DOCUMENTATION_OPTIONS: { BUILDER: "html", FILE_SUFFIX: ".html", LINK_SUFFIX: ".html" },
  SPHINX_HIGHLIGHT_ENABLED: false,
  URLSearchParams,
  _: (text) => text,
  _ready: () => {},
  addEventListener: () => {},
  document: { addEventListener: () => {}, getElementById: () => ({}), readyState: "loading" },
};
page.window = page;
vm.createContext(page);
const scripts = ["language_data.js", "base-stemmer.js", "english-stemmer.js", "searchtools.js", "synonyms.js", "pages.js"];
const read = (path) => fs.readFileSync(`${built}/${path}`, "utf8");
page.MutationObserver = class { observe() {} };
vm.runInContext(`${scripts.map((name) => read(`_static/${name}`)).join("\n")}\n${read("searchindex.js")}
  const find = (query) => Search._performSearch(...Search._parseQuery((Scorer.query = inWordsOfTheSite(query))));
  pagesOf = (query) => [...new Set(find(query).reverse().map(([name]) => name))];`, page);
const queries = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(JSON.stringify(Object.fromEntries(queries.map((query) => [query, page.pagesOf(query)]))));
