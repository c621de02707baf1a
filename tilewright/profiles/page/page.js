// The layer table: a name shows the layer in the time line, a heading sorts by its column.
(function () {
  "use strict";

  function timeLine() {
    return Bokeh.documents.map((page) => page.get_model_by_name("time")).find((figure) => figure);
  }

  function show(link) {
    const figure = timeLine();
    const first = Number(link.dataset.first), last = Number(link.dataset.last);
    const margin = Math.max(1, (last - first) * 0.02);
    figure.x_range.setv({ start: first - margin, end: last + margin });
  }

  function value(row, column) {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  }

  function sort(table, column, button) {
    const downwards = button.dataset.downwards !== "yes";
    button.dataset.downwards = downwards ? "yes" : "no";
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => {
      const one = value(a, column), two = value(b, column);
      const order = typeof one === "number" ? one - two : one.localeCompare(two);
      return downwards ? -order : order;
    });
    table.tBodies[0].append(...rows);
  }

  document.querySelectorAll("a[data-first]").forEach((link) => link.addEventListener("click", () => show(link)));
  document.querySelectorAll("table.sortable").forEach((table) => {
    table.querySelectorAll("th").forEach((heading, column) => {
      const button = heading.querySelector("button");
      button.addEventListener("click", () => sort(table, column, button));
    });
  });
})();
