/** Addresses of runs, in links and in the API: of a current run its name, of an archived one `name--id`. */

export type Addressed = { id: number; name: string; archived_at: string | null };

export const addressOf = ({ id, name, archived_at }: Addressed): string => (archived_at ? `${name}--${id}` : name);
