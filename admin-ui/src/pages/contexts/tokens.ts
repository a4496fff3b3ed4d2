// An estimate of a prompt's tokens. Vocabularies differ between models and only their vendors count
// exactly; about four letters to a token fit English and its neighbours, one character Chinese or
// Japanese text.
const ONE_EACH = /[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]/gu;
const LETTERS_PER_TOKEN = 4;

export function estimatedTokens(text: string): number {
  const single = text.match(ONE_EACH)?.length ?? 0;
  const rest = text.replace(ONE_EACH, "").replace(/\s+/g, " ").trim().length;
  return single + Math.ceil(rest / LETTERS_PER_TOKEN);
}
