// The mutators of examples/demo_sync.py in JavaScript, so that the page shows a change at once.

import { Rejected, BUILT_IN_MUTATORS } from "/web/client/stratalog.js";

const RATING_MAX = 10;

function retitle(draft, { key, was, title }) {
  const movie = movieOf(draft, key);
  if (movie.Title !== was) throw new Rejected(`it is now called “${movie.Title}”`);
  draft.put(key, { ...movie, Title: title });
}

function rate(draft, { key, rating }) {
  const movie = movieOf(draft, key);
  if (rating !== null && !(rating >= 0 && rating <= RATING_MAX)) throw new Rejected("a rating lies between 0 and 10");
  draft.put(key, { ...movie, "IMDB Rating": rating });
}

function movieOf(draft, key) {
  const movie = draft.get(key);
  if (movie === null) throw new Rejected("the movie is gone");
  return movie;
}

export const MUTATORS = { ...BUILT_IN_MUTATORS, retitle, rate };
