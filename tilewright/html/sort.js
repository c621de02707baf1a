// A heading of a table sorts by its column: numbers by their size, first as the table says, then the other way.
(function () {
  "use strict";

  function value(row, column) {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  }

  function sort(table, column, button) {
    const first = table.dataset.first || "down";
    const now = button.dataset.sorted === undefined ? first : button.dataset.sorted === "down" ? "up" : "down";
    table.querySelectorAll("th").forEach((heading) => {
      heading.removeAttribute("aria-sort");
      const other = heading.querySelector("button");
      if (other !== button) delete other.dataset.sorted;
    });
    button.dataset.sorted = now;
    button.closest("th").setAttribute("aria-sort", now === "down" ? "descending" : "ascending");
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => {
      const one = value(a, column), two = value(b, column);
      const order = typeof one === "number" ? one - two : one.localeCompare(two);
      return now === "down" ? -order : order;
    });
    table.tBodies[0].append(...rows);
  }

  document.querySelectorAll("table.sortable").forEach((table) => {
    table.querySelectorAll("th").forEach((heading, column) => {
      const button = heading.querySelector("button");
      button.addEventListener("click", () => sort(table, column, button));
    });
  });
})();
