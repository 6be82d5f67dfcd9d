// The layout that a stylesheet cannot know: it depends on the length of a word and on the shape of a picture.
document.addEventListener("DOMContentLoaded", () => {
  // Short words of code stay whole, and flags in headings: `--seed` must not end a line with its dashes.
  for (const heading of document.querySelectorAll("article :is(h2, h3)")) {
    const text = heading.firstChild;
    if (text.nodeType !== Node.TEXT_NODE || !/ --\w/.test(text.data)) continue;
    const parts = text.data.split(/(--\S+)/).map((part) => {
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
  // A name as a heading may break after its points and underscores.
  const heading = document.querySelector("article h1")?.firstChild;
  if (heading && /^\w+([._]\w+)+$/.test(heading.textContent)) {
    heading.parentElement.classList.add("name");
    heading.replaceWith(...heading.textContent.split(/(?<=[._])/).flatMap((part) => [part, document.createElement("wbr")]));
  }
  // Tables that a program printed keep their lines, and scroll if they are too wide.
  for (const output of document.querySelectorAll(".cell_output pre")) {
    const rows = output.textContent.split("\n").filter((line) => /\S {2,}\S/.test(line));
    output.classList.toggle("columns", rows.length > 1);
  }
  // Wide pictures scroll on a telephone, and fade out on the right as long as more is there.
  for (const picture of document.querySelectorAll("article img")) {
    const place = () => {
      if (picture.naturalWidth < 1300 && !picture.src.endsWith(".svg")) return;
      const box = document.createElement("div");
      const fade = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
      picture.replaceWith(box);
      box.append(picture);
      box.className = "scrolls";
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
