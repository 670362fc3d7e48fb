// How numbers are written: the same text as FORMATS in rankreg.report.page, name by name.
"use strict";
const formats = (() => {
  // Python rounds a number that lies halfway to the even digit, toFixed to the larger one.
  const fixed = (value, digits) => {
    const exact = Math.abs(value).toFixed(Math.min(100, digits + 55));
    const cut = exact.length - Math.min(100 - digits, 55);
    const kept = exact.slice(0, digits ? cut : cut - 1);
    const halfway = /^50*$/.test(exact.slice(cut));
    const text = halfway && "02468".includes(kept.at(-1)) ? kept : Math.abs(value).toFixed(digits);
    return (value < 0 ? "-" : "") + text;
  };
  const grouped = (text) => text.replace(/^(-?\d+)/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
  const general = (value, digits) => {
    if (!Number.isFinite(value)) return value > 0 ? "inf" : value < 0 ? "-inf" : "nan";
    if (value === 0) return "0";
    const [rounded, power] = value.toExponential(digits - 1).split("e").map(Number);
    if (power < -4 || power >= digits) {
      const scaled = Number(fixed(value / 10 ** (power - digits + 1), 0)) / 10 ** (digits - 1);
      const mantissa = power < 0 ? rounded : scaled;
      return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
    }
    const text = fixed(value, digits - 1 - power);
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  };
  const number = (value, up = null) => {
    if (value === 0 || !Number.isFinite(value) || Math.abs(value) >= 1e9) return general(value, 3);
    const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
    let scaled = value * 10 ** digits;
    if (up !== null) scaled = up ? Math.ceil(scaled - 1e-9) : Math.floor(scaled + 1e-9);
    return grouped(fixed(scaled / 10 ** digits, digits));
  };
  const share = (value, up = null) => {
    if (value > 0.99 && up !== true && value < 1) {
      const digits = Math.max(0, 1 - Math.floor(Math.log10(100 * (1 - value))));
      return fixed(Math.floor(100 * value * 10 ** digits + 1e-9) / 10 ** digits, digits) + " %";
    }
    return number(100 * value, up) + " %";
  };
  return {
    text: String,
    count: (value) => grouped(String(value)),
    percent: (value) => general(100 * value, 6) + " %",
    rounded: (value) => general(100 * value, 3) + " %",
    share: (value) => (value === null ? "undefined" : share(value)),
    share_up: (value) => share(value, true),
    share_down: (value) => share(value, false),
    number: (value) => number(value),
    number_up: (value) => number(value, true),
  };
})();
