/** Texts that state where a reason is recorded. */

export const RECORDED_IN_AUDIT = "Recorded with your name in the audit log.";
export const RECORDED_IN_EVENTS = "Recorded with your name in the run's events.";
