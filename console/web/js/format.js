// Numbers, sizes and times as people read them: with a unit, at most three digits that matter.

const UNKNOWN = "–";
const THIN = "\u202f";
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const COUNTS = ["", "k", "M", "G", "T"];
const grouped = new Intl.NumberFormat("en-US");

function isUnknown(value) {
  return value === null || value === undefined || Number.isNaN(value);
}

function threeDigits(value) {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value, base, units) {
  let unit = 0;
  while (value >= base * 0.9995 && unit < units.length - 1) {
    value /= base;
    unit += 1;
  }
  return [value, units[unit], unit];
}

/** A count in full: `12,345`. */
export function count(value) {
  return isUnknown(value) ? UNKNOWN : grouped.format(value);
}

/** A count in short: `12.3 k`. */
export function short(value) {
  if (isUnknown(value)) return UNKNOWN;
  if (value < 10_000) return grouped.format(value < 100 ? Math.round(value * 10) / 10 : Math.round(value));
  const [number, unit] = scaled(value, 1_000, COUNTS);
  return `${threeDigits(number)}${THIN}${unit}`;
}

/** Records, or whatever, per second. */
export function rate(value) {
  return isUnknown(value) ? UNKNOWN : `${short(value)}/s`;
}

/** Bytes: `1.25 MiB`. */
export function bytes(value) {
  if (isUnknown(value)) return UNKNOWN;
  const [number, unit, power] = scaled(value, 1_024, SIZES);
  return `${power === 0 ? Math.round(number) : threeDigits(number)}${THIN}${unit}`;
}

/** A share of 0 to 1. */
export function percent(value) {
  return isUnknown(value) ? UNKNOWN : `${Math.round(value * 100)}${THIN}%`;
}

const STEPS = [
  [86_400_000, "d", 3_600_000, "h"],
  [3_600_000, "h", 60_000, "min"],
  [60_000, "min", 1_000, "s"],
];

/** Milliseconds as a duration: `3.2 ms`, `850 ms`, `1.23 s`, `2 min 5 s`, `3 d 4 h`. */
export function duration(ms) {
  if (isUnknown(ms)) return UNKNOWN;
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms === 0) return `0${THIN}ms`;
  if (ms < 9.95) return `${ms.toFixed(1)}${THIN}ms`;
  if (ms < 999.5) return `${Math.round(ms)}${THIN}ms`;
  if (ms < 59_995) return `${threeDigits(ms / 1_000)}${THIN}s`;
  for (const [size, unit, smaller, smallerUnit] of STEPS) {
    if (ms < size) continue;
    const rest = Math.floor((ms % size) / smaller);
    const whole = `${grouped.format(Math.floor(ms / size))}${THIN}${unit}`;
    return rest ? `${whole} ${rest}${THIN}${smallerUnit}` : whole;
  }
  return `${Math.round(ms / 1_000)}${THIN}s`;
}

/** The same for narrow columns, in its largest unit only: `3 d`. */
export function shortDuration(ms) {
  return duration(ms).split(" ")[0];
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** A moment, in the time zone of the browser; with its day where that is not today. */
export function time(ms) {
  if (isUnknown(ms) || ms < 0) return UNKNOWN;
  const moment = new Date(ms);
  if (Number.isNaN(moment.getTime())) return UNKNOWN;
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday ? clock.format(moment) : `${day.format(moment)}, ${clock.format(moment)}`;
}

const dayOnly = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** The same for narrow columns: `14 Nov 22:13`. */
export function shortTime(ms) {
  const moment = new Date(ms);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday ? clock.format(moment) : `${dayOnly.format(moment)} ${clock.format(moment).slice(0, 5)}`;
}

/** The same in full and in UTC, for a tooltip. */
export function utc(ms) {
  if (isUnknown(ms) || ms < 0) return "";
  const moment = new Date(ms);
  return Number.isNaN(moment.getTime()) ? "" : `${moment.toISOString().replace("T", " ").replace("Z", "")} UTC`;
}

/** `1 subtask`, `3 subtasks`. */
export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
