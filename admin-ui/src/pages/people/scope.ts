/** Contexts as they are typed: names or patterns, with commas or spaces between; none means all. */
export function scopeOf(typed: string): string[] {
  const given = typed.split(/[\s,]+/).filter(Boolean);
  return given.length > 0 ? [...new Set(given)] : ["*"];
}
