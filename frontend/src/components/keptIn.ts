/** Say where a reason goes. */

export const KEPT_IN_AUDIT = "Kept with your name in the audit.";
export const KEPT_IN_EVENTS = "Kept with your name in the run's events.";
