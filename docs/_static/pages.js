// The layout that a stylesheet cannot know: it depends on the length of a word and on the shape of a picture.
document.addEventListener("DOMContentLoaded", () => {
  // Tables that a program printed keep their lines, and scroll if they are too wide. Commands with a remark beside them wrap.
  for (const output of document.querySelectorAll(":is(.cell_output, .highlight-text, .highlight-none) pre")) {
    const columns = !output.closest(".highlight-text") ? /\S {2,}\S/ : /\S {2,}[^\s#].* {2,}\S/;
    const lines = output.textContent.split("\n");
    output.classList.toggle("columns", lines.filter((line) => columns.test(line)).length > 1);
    // Sentences between the rows wrap all the same, if no word of the block has a colour.
    if (!output.matches(".columns") || output.querySelector("span:not(:empty)")) continue;
    output.replaceChildren(...lines.flatMap((line, place) => [place ? "\n" : "", columns.test(line) ? line : wrapping(line)]));
  }
  // Short words of code stay whole, and so do flags in headings and commands: `--seed` must not end a line with its dashes.
  const texts = document.createTreeWalker(document.querySelector("article") ?? document.body, NodeFilter.SHOW_TEXT);
  const withFlags = [];
  while (texts.nextNode()) {
    const isLine = texts.currentNode.parentElement.closest("h2, h3, pre");
    if (isLine && /(?<![\w-])--\w/.test(texts.currentNode.data)) withFlags.push(texts.currentNode);
  }
  for (const text of withFlags) {
    const parts = text.data.split(/((?<![\w-])--\w[\w-]*)/).map((part) => {
      if (!part.startsWith("--")) return part;
      const flag = document.createElement("span");
      flag.className = "whole";
      flag.textContent = part;
      return flag;
    });
    text.replaceWith(...parts);
  }
  for (const word of document.querySelectorAll("code .pre")) {
    word.classList.toggle("whole", word.textContent.length <= (word.closest("td") ? 18 : 24));
  }
  // Names may break after their points and underscores: those that are a heading, and long ones in tables.
  const breakable = (text) => text.split(/(?<=[._(])(?=\w)/).flatMap((part) => [part, document.createElement("wbr")]).slice(0, -1);
  for (const heading of document.querySelectorAll("article :is(h1, h2)")) {
    if (heading.firstChild?.nodeType !== Node.TEXT_NODE || !/^\w+([._]\w+)+$/.test(heading.firstChild.data)) continue;
    heading.classList.add("name");
    heading.firstChild.replaceWith(...breakable(heading.firstChild.data));
  }
  for (const word of document.querySelectorAll("td code .pre:not(.whole)")) word.replaceChildren(...breakable(word.textContent));
  // Pictures open in full size. Wide ones scroll on a telephone, and fade out on the right as long as more is there.
  for (const picture of document.querySelectorAll("article img")) {
    const place = () => {
      const box = picture.closest("a") ?? document.createElement("a");
      if (box !== picture.parentElement) {
        picture.replaceWith(box);
        box.append(picture);
        box.href = picture.src;
      }
      box.classList.add("picture");
      const isWide = !picture.closest(".cell_output") && picture.naturalWidth > 2 * picture.naturalHeight;
      const hasPanels = picture.naturalWidth >= 1300 || isWide;
      if (!hasPanels && !picture.src.endsWith(".svg")) return;
      const fade = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
      box.classList.add("scrolls");
      box.addEventListener("scroll", fade);
      addEventListener("resize", fade);
      fade();
    };
    if (picture.complete) place();
    else picture.addEventListener("load", place);
  }
  // A page of the reference that is not in the sidebar belongs to a package, which is marked and shown there.
  if (location.pathname.includes("/reference/generated/") && !document.querySelector(".sidebar-tree .current-page")) {
    const owner = document.querySelector('article a[href^="package-"]')?.getAttribute("href") ?? "library.html";
    const place = document.querySelector(`.sidebar-tree a[href$="${owner}"]`)?.closest("li");
    place?.classList.add("current-page");
    for (let item = place; item; item = item.parentElement.closest("li")) {
      const box = item.querySelector(":scope > input");
      if (box) box.checked = true;
    }
  }
  // The pages in frames follow the theme's button. They ask for the theme when they open.
  const isDark = () => getComputedStyle(document.body).colorScheme === "dark";
  const tell = () => document.querySelectorAll("iframe").forEach((frame) => frame.contentWindow.postMessage(isDark(), "*"));
  addEventListener("message", ({ data }) => data === "dark?" && tell());
  new MutationObserver(tell).observe(document.body, { attributeFilter: ["data-theme"] });
});

function wrapping(line) {
  const part = document.createElement("span");
  part.className = "wraps";
  part.textContent = line;
  return part;
}

// The search takes this site's words for those of its readers, and an empty search offers the pages that answer most.
document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("search-results");
  if (!place || typeof Search === "undefined") return;
  const find = Search.query;
  Search.query = (query) => find((Scorer.query = inWordsOfTheSite(query)));
  new MutationObserver(() => {
    const isEmpty = Search.status?.innerText.includes("did not match") && !place.querySelector(".instead");
    if (isEmpty) place.append(offer());
  }).observe(place, { childList: true, subtree: true, characterData: true });
});

// A query with this site's words for those of its readers.
function inWordsOfTheSite(query) {
  const translate = (text, [words, others]) => text.replace(new RegExp(`(?<![\\w-])${words}(?![\\w-])`, "gi"), others);
  return Object.entries(synonyms).reduce(translate, query);
}

// A paragraph with links, for a search that found nothing.
function offer() {
  const root = document.documentElement.dataset.content_root ?? "";
  const text = document.createElement("p");
  text.className = "instead";
  text.append("Nothing has these words. Try the ");
  const pages = { "frequently asked questions": "faq.html", "words of your framework": "how-to/frameworks.html", glossary: "explanation/glossary.html" };
  Object.entries(pages).forEach(([words, page], place, all) => {
    const link = document.createElement("a");
    link.href = root + page;
    link.textContent = words;
    text.append(link, place < all.length - 2 ? ", the " : place < all.length - 1 ? " or the " : ".");
  });
  return text;
}
