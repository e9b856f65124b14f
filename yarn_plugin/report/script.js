"use strict";
// Tooltips beside the pointer, in place of the browser's own.
const tip = document.getElementById("tip");
for (const title of document.querySelectorAll("svg g > title, svg rect > title, svg path > title, svg circle > title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.parentNode.setAttribute("aria-label", title.textContent);
  title.remove();
}
document.addEventListener("pointermove", (event) => {
  const part = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !part;
  if (!part) return;
  if (tip.textContent !== part.dataset.tip) tip.textContent = part.dataset.tip;
  const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
  const low = event.clientY + 18 + tip.offsetHeight > window.innerHeight;
  tip.style.left = Math.max(4, right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 16) + "px";
  tip.style.top = Math.max(4, low ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18) + "px";
});
// Tables: a click on a column's name sorts by it, a second click reverses the order.
const key = (row, place) => {
  const cell = row.cells[place];
  return cell.dataset.key !== undefined ? Number(cell.dataset.key) : cell.textContent;
};
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
document.addEventListener("click", (event) => {
  const head = event.target.closest("thead th");
  if (!head) return;
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = head.closest("table").tBodies[0];
  const rows = [...body.rows].sort((a, b) => compare(key(a, head.cellIndex), key(b, head.cellIndex)));
  body.append(...(down ? rows.reverse() : rows));
});
// A page of something that goes on: load it again, unless its reader has expanded a part of it.
if (document.body.dataset.reloadS) {
  setInterval(() => {
    if (!document.hidden && !document.querySelector("details[open]")) location.reload();
  }, 1000 * Number(document.body.dataset.reloadS));
}
