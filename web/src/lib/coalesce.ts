// Many reasons to read something again within a moment become one reading, and never two at a time.

export function coalesce(run: () => Promise<void>, delayMs: number): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let running = false;
  let again = false;
  const fire = async () => {
    timer = null;
    running = true;
    try {
      await run();
    } finally {
      running = false;
      if (again) {
        again = false;
        schedule();
      }
    }
  };
  const schedule = () => {
    // A reason that comes while a reading is under way may be missing from its answer, so it asks for another one.
    if (running) again = true;
    else timer ??= setTimeout(() => void fire(), delayMs);
  };
  return schedule;
}
