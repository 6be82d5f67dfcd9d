// A button on every block of code that copies it, without prompts and without output.
document.addEventListener("DOMContentLoaded", () => {
  for (const pre of document.querySelectorAll("div.cell_input div.highlight pre, div.highlight-text div.highlight pre")) {
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
