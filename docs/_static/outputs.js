// Tables that a program printed, as tables that fit a telephone. A wide screen shows the lines as they were printed.

// The blocks of a printed text: {lines} are sentences, {rows} cells that stood below each other, maybe with a {head}.
function blocksOf(text) {
  const isSentence = (line) => !/^\s/.test(line) && !/\S {2,}\S/.test(line);
  const groups = [];
  for (const line of text.trimEnd().split("\n")) {
    const kind = isSentence(line) ? "sentence" : "cells";
    if (groups.at(-1)?.kind !== kind) groups.push({ kind, lines: [] });
    groups.at(-1).lines.push(line);
  }
  return groups.map(({ kind, lines }) => (kind === "cells" && tableOf(lines)) || { lines });
}

// Lines as rows of cells, or null if they have no columns: two characters wide or more that are empty in all of them.
function tableOf(lines) {
  const width = Math.max(...lines.map((line) => line.length));
  const inUse = Array.from({ length: width }, (_, place) => lines.some((line) => (line[place] ?? " ") !== " "));
  const columns = [];
  for (const [place, used] of inUse.entries()) {
    if (!used) continue;
    if (columns.length && place - columns.at(-1)[1] <= 1) columns.at(-1)[1] = place + 1;
    else columns.push([place, place + 1]);
  }
  if (lines.length < 2 || columns.length < 2) return null;
  const hasNumber = (row) => row.slice(1).some(isNumber);
  const rows = [];
  for (const line of lines) {
    const cells = columns.map(([start, end]) => line.slice(start, end).trim());
    // A row with nothing but the rest of a cell goes on with the row above it, and so does the second line of a head.
    const isRest = /^\s/.test(line) && (cells.filter(Boolean).length === 1 || (rows.length === 1 && !cells[0] && !hasNumber(cells)));
    if (rows.length && isRest) rows[rows.length - 1] = rows.at(-1).map((cell, column) => `${cell} ${cells[column]}`.trim());
    else rows.push(cells);
  }
  // The first row is a head if it has a word above a column of numbers.
  const hasHead = rows[0].some((cell, column) => {
    const below = rows.slice(1).map((row) => row[column]).filter(Boolean);
    return column && cell && !isNumber(cell) && below.length && below.every(isNumber);
  });
  return hasHead ? { head: rows[0], rows: rows.slice(1) } : { rows };
}

function isNumber(cell) {
  return /^[-−–+=≤≥ ]*[\d.]/.test(cell);
}

// Blocks as elements, which replace the printed text on narrow screens.
function narrow(blocks) {
  const box = document.createElement("div");
  box.className = "narrow";
  for (const { lines, head, rows } of blocks) {
    const part = document.createElement(lines ? "pre" : "div");
    box.append(part);
    if (lines) {
      part.textContent = lines.join("\n");
      continue;
    }
    part.className = "table-wrapper container"; // The theme lets it scroll where even the table is too wide.
    const table = document.createElement("table");
    table.className = "docutils";
    part.append(table);
    const isRight = rows[0].map((_, column) => rows.every((row) => !/\p{L}/u.test(row[column])));
    const fill = (section, cells, tag) => {
      const row = section.insertRow();
      cells.forEach((text, column) => {
        const cell = document.createElement(tag);
        // Names may break after their points, commas and underscores, and numbers stay whole.
        const parts = text.split(/(?<=\p{L}[._,/=])(?=\S{3})|(?<=,)(?=\p{L})/u);
        parts.forEach((part, place) => cell.append(...(place ? [document.createElement("wbr")] : []), part));
        cell.classList.toggle("number", isRight[column]);
        cell.classList.toggle("whole", isNumber(text) && text.length <= 14);
        row.append(cell);
      });
    };
    if (head) fill(table.createTHead(), head, "th");
    const body = table.createTBody();
    rows.forEach((row) => fill(body, row, "td"));
  }
  return box;
}

if (typeof module === "undefined") {
  document.addEventListener("DOMContentLoaded", () => {
    for (const output of document.querySelectorAll(":is(.cell_output, .highlight-text, .highlight-none) div.highlight")) {
      const text = output.querySelector("pre").textContent;
      const blocks = blocksOf(text);
      // Beside a command that is no cell, a second column is a remark.
      const least = output.closest(".highlight-text") ? 3 : 2;
      const isWide = text.split("\n").some((line) => line.length > 44);
      if (isWide && blocks.some(({ rows }) => rows && rows[0].length >= least)) output.after(narrow(blocks));
    }
  });
} else {
  module.exports = { blocksOf };
}
