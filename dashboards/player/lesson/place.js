// The step in the address: "#step=3" besides the shell's own part.

/**
 * @param {string} hash with or without the "#"
 * @param {number} numSteps
 * @returns {number} from 1; 0 where the address names none
 */
export function stepOf(hash, numSteps) {
  const text = new URLSearchParams(hash.replace(/^#/, "")).get("step") ?? "";
  return /^\d{1,6}$/.test(text) ? Math.max(1, Math.min(numSteps, Number(text))) : 0;
}

/**
 * The same fragment with some fields set, or taken away by "".
 * @param {string} hash
 * @param {Readonly<Record<string, string>>} fields
 */
export function withFields(hash, fields) {
  const all = new URLSearchParams(hash.replace(/^#/, ""));
  for (const [name, value] of Object.entries(fields)) {
    if (value) {
      all.set(name, value);
    } else {
      all.delete(name);
    }
  }
  return `#${all}`;
}
