// SPDX-License-Identifier: GPL-2.0-only
// Draws each panel from the JSON beside it; the axes are the same in all panels of a run.
"use strict";
const settings = { responsive: true, displayModeBar: false };
for (const plot of document.querySelectorAll(".plot")) {
	const { data, layout } = JSON.parse(document.getElementById(plot.id + "-data").textContent);
	Plotly.newPlot(plot, data, layout, settings);
}
for (const button of document.querySelectorAll(".scale button")) {
	button.addEventListener("click", () => {
		const section = button.closest("section");
		for (const other of button.parentElement.children)
			other.setAttribute("aria-pressed", String(other === button));
		for (const plot of section.querySelectorAll(".plot")) {
			Plotly.relayout(plot, {
				"yaxis.type": button.value,
				"yaxis.range": JSON.parse(plot.dataset[button.value]),
				"yaxis.tickmode": button.value === "log" ? "array" : "auto",
			});
		}
	});
}
