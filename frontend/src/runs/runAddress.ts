/** URLs of runs, in links and in the API: `name` for a current run, `name--id` for an archived one. */

export type Addressed = { id: number; name: string; archived_at: string | null };

export const addressOf = ({ id, name, archived_at }: Addressed): string => (archived_at ? `${name}--${id}` : name);
