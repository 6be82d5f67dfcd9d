// Whether the browser prefers dark. `apply` gets every change, also of a page that holds this one in a frame.
function isDark(apply) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.onchange = () => apply(dark.matches);
  addEventListener("message", ({ data }) => { if (typeof data === "boolean") apply(data); });
  parent.postMessage("dark?", "*");
  return dark.matches;
}
