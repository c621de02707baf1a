// The layer table: a name shows the layer in the time line.
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

  document.querySelectorAll("a[data-first]").forEach((link) => link.addEventListener("click", () => show(link)));
})();
