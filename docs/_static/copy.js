// A button on every block of code that copies it, without prompts and without output. A cell that writes a file shows
// its name as a label, and not the first line, which only the notebook understands.
document.addEventListener("DOMContentLoaded", () => {
  for (const pre of document.querySelectorAll("div.cell_input div.highlight pre, div.highlight-text div.highlight pre")) {
    const first = pre.textContent.match(/^%%writefile (\S+)\n/);
    if (first) {
      let left = first[0].length;
      for (const node of [...pre.childNodes]) {
        const text = node.textContent;
        if (left <= 0) break;
        if (text.length <= left) node.remove();
        else node.textContent = text.slice(left);
        left -= text.length;
      }
      const label = document.createElement("div");
      label.className = "file";
      label.textContent = first[1];
      pre.parentElement.before(label);
    }
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(pre.textContent.replace(/^!/gm, "").trimEnd());
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    pre.parentElement.style.position = "relative";
    pre.parentElement.append(button);
  }
});
