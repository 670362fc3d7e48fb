// The sliders: look up the tables of rankreg.report.sliders, with the arithmetic of its values_at.
const rankreg = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { stops, ranks, models, negatives } = data;
  const byId = (id) => document.getElementById(id);
  const sliders = { tpr: byId("tpr"), confidence: byId("confidence"), prevalence: byId("prevalence") };
  const perDay = byId("per-day");
  const infinite = { inf: Infinity, "-inf": -Infinity };
  const asNumber = (text) => infinite[text] ?? Number(text);

  function setting() {
    const typed = Number(perDay.value);
    return {
      tpr: Number(sliders.tpr.value),
      confidence: Number(sliders.confidence.value),
      prevalence: Number(sliders.prevalence.value),
      per_day: perDay.value !== "" && typed > 0 && typed < 1e12 ? typed : null,
    };
  }

  function valuesAt(model, at) {
    const [tpr, confidence] = [stops.tprs[at.tpr], stops.confidences[at.confidence]];
    const prevalence = stops.prevalences[at.prevalence];
    const cell = at.tpr * stops.confidences.length + at.confidence;
    const [place, usual, counts] = [ranks.places[cell], ranks.usual[at.tpr], models[model]];
    const [recall, fpr] = [counts.caught[place] / ranks.positives, counts.false[place] / negatives];
    const rowRecall = counts.rows[place] / counts.positives;
    const bound = counts.high[cell];
    const alarms = 1000 * (prevalence * rowRecall + (1 - prevalence) * fpr);
    const alarmsAtMost = 1000 * (prevalence + (1 - prevalence) * bound);
    const [usualRecall, usualFpr] = [counts.rows[usual] / counts.positives, counts.false[usual] / negatives];
    const usualAlarms = 1000 * (prevalence * usualRecall + (1 - prevalence) * usualFpr);
    const cleared = prevalence * (1 - rowRecall) + (1 - prevalence) * (1 - fpr);
    const day = at.per_day ?? 0;
    return {
      tpr, confidence, prevalence,
      per_day: day,
      both: Math.max(0, 2 * confidence - 1),
      enough: Boolean(ranks.certified[cell]),
      certified: Boolean(ranks.certified[cell]) && !counts.refused,
      price: fpr >= Math.min(rowRecall, data.nearly_all) ? "useless" : data.prices.find(([most]) => bound <= most)?.[1] ?? "very high",
      threshold: counts.thresholds[place],
      rounded: counts.rounded[place],
      rank: ranks.ranks[place],
      recall,
      missed: ranks.positives - counts.caught[place],
      false: counts.false[place],
      fpr,
      fpr_at_least: counts.low[cell],
      fpr_at_most: bound,
      false_alarms_per_1000: 1000 * ((1 - prevalence) * fpr),
      false_alarms_per_1000_at_most: 1000 * ((1 - prevalence) * bound),
      alarms_per_1000: alarms,
      alarms_per_1000_at_most: alarmsAtMost,
      alarms_per_day: alarms / 1000 * day,
      alarms_per_day_at_most: alarmsAtMost / 1000 * day,
      misses_per_100000: 100000 * prevalence * (1 - rowRecall),
      misses_per_100000_at_most: 100000 * prevalence * (1 - tpr),
      misses_per_year: 365 * day * prevalence * (1 - rowRecall),
      misses_per_year_at_most: 365 * day * prevalence * (1 - tpr),
      ppv: 1000 * prevalence * rowRecall / alarms,
      ppv_at_least: prevalence * tpr / (prevalence * tpr + (1 - prevalence) * bound),
      npv: cleared ? (1 - prevalence) * (1 - fpr) / cleared : null,
      npv_at_least: (1 - prevalence) * (1 - bound) / ((1 - prevalence) * (1 - bound) + prevalence * (1 - tpr)),
      extra_alarms_per_1000: alarms - usualAlarms,
      shortfall_risk: ranks.risk[at.tpr],
      at_most_if_tied: counts.tied[usual] ? "at most " : "",
      everything: counts.false[place] === negatives,
      usual_everything: counts.false[usual] === negatives,
      refused: counts.refused,
      same: counts.caught[place] === counts.caught[usual] && counts.false[place] === counts.false[usual],
      needed: ranks.needed[cell],
      highest_tpr: ranks.highest[at.confidence],
    };
  }

  const scales = { log: Math.log10, logit: (value) => Math.log(value) - Math.log1p(-value) };
  const axis = (text) => {
    const [low, high, start, stop] = text.split(" ").map(Number);
    const scale = scales[text.split(" ")[4]];
    const on = (value) => (scale ? Math.min(high, Math.max(low, scale(value))) : value);
    return (value) => start + (on(value) - low) / (high - low) * (stop - start);
  };

  function moveMarkers(values) {
    for (const chart of document.querySelectorAll("svg.roc")) {
      const [x, y] = [axis(chart.dataset.x), axis(chart.dataset.y)];
      const [, , start, stop] = chart.dataset.x.split(" ");
      chart.querySelector(".target").setAttribute("d", `M${start} ${y(values[0].tpr)}H${stop}`);
      for (const marker of chart.querySelectorAll(".marker")) {
        const now = values[marker.dataset.model];
        const height = y(now.recall);
        marker.querySelector("path").setAttribute("d", `M${x(now.fpr_at_least)} ${height}H${x(now.fpr_at_most)}`);
        marker.querySelector("circle").setAttribute("cx", x(now.fpr));
        marker.querySelector("circle").setAttribute("cy", height);
      }
    }
  }

  function moveCuts(values) {
    for (const chart of document.querySelectorAll("svg.histogram")) {
      const threshold = asNumber(values[chart.dataset.model].threshold);
      const [, , start, stop] = chart.dataset.x.split(" ").map(Number);
      const place = Math.min(stop, Math.max(start, axis(chart.dataset.x)(threshold)));
      chart.querySelector(".cut").setAttribute("transform", `translate(${place} 0)`);
      chart.querySelector("clipPath rect").setAttribute("x", place);
    }
  }

  function sayOutcomes(values) {
    for (const sample of document.querySelectorAll("[data-score]")) {
      const alarm = asNumber(sample.dataset.score) >= asNumber(values[sample.dataset.model].threshold);
      const said = sample.dataset.kind === "positive" ? ["missed", "caught"] : ["cleared", "false alarm"];
      sample.querySelector(".outcome").textContent = said[Number(alarm)];
    }
  }

  function update() {
    const at = setting();
    const values = models.map((_, model) => valuesAt(model, at));
    const started = stops.fixed_tprs.includes(at.tpr) && at.confidence === stops.fixed_confidence;
    const fixed = started && !data.promised;
    const modelOf = (element) => element.closest("[data-model]")?.dataset.model ?? 0;
    const flags = values.map((now) => ({
      enough: now.enough, too_few: !now.enough,
      certified: now.certified, uncertified: !now.certified,
      low: now.price === "low", high: now.price === "high",
      very_high: now.price === "very high", useless: now.price === "useless",
      same: now.same, another: !now.same,
      everything: now.everything, usual_selective: !now.usual_everything, refused: now.refused,
      fixed, exploratory: !fixed,
      per_day: at.per_day !== null, no_per_day: at.per_day === null,
    }));
    for (const element of document.querySelectorAll("[data-value]")) {
      const now = values[modelOf(element)][element.dataset.value];
      const text = formats[element.dataset.as](now);
      if (element.textContent !== text) element.textContent = text;
    }
    for (const element of document.querySelectorAll("[data-when]")) {
      element.hidden = !element.dataset.when.split(" ").every((flag) => flags[modelOf(element)][flag]);
    }
    for (const [name, slider] of Object.entries(sliders)) {
      const text = (name === "prevalence" ? formats.rounded : formats.percent)(values[0][name]);
      byId(`${name}-now`).textContent = text;
      slider.setAttribute("aria-valuetext", text);
    }
    byId("reset").hidden = started && at.prevalence === stops.fixed_prevalence;
    document.body.classList.toggle("exploratory", !fixed);
    moveMarkers(values);
    moveCuts(values);
    sayOutcomes(values);
  }

  function reset() {
    sliders.tpr.value = data.setting.tpr;
    sliders.confidence.value = data.setting.confidence;
    sliders.prevalence.value = data.setting.prevalence;
    update();
    sliders.tpr.focus();
  }

  async function copy(button) {
    const source = byId(button.dataset.copy);
    const said = button.parentElement.querySelector(".copied");
    try {
      await navigator.clipboard.writeText(source.textContent);
      said.textContent = "Copied.";
    } catch {
      source.hidden = false;
      getSelection().selectAllChildren(source);
      said.textContent = document.execCommand("copy") ? "Copied." : "Selected: press Ctrl+C to copy.";
    }
  }

  for (const input of [...Object.values(sliders), perDay]) input.addEventListener("input", update);
  byId("reset").addEventListener("click", reset);
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button));
  update();
  return { valuesAt, formats, data };
})();
window.rankreg = rankreg;
