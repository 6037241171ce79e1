/** Quick starts for each kind of client, with this server's URL and a token. Pure. */

/** `scopes`: all scopes that the token needs. */
type QuickStart = { id: string; title: string; scopes: string; text: string };

/** Without a token, the command reads it from the environment. */
export function quickStarts(origin: string, token: string | null, run: string): QuickStart[] {
  const shown = token ?? "$ROLLDECK_TOKEN";
  const inPython = token ? JSON.stringify(token) : 'os.environ["ROLLDECK_TOKEN"]';
  const [scheme, host] = origin.split("://");
  return [
    {
      id: "curl",
      title: "curl",
      scopes: "env and read",
      text: `# push a group of two sequences into the outside run ${run}, and read it back
curl --fail-with-body -X POST "${origin}/atropos/${run}/scored_data" \\
  -H "Authorization: Bearer ${shown}" -H "Content-Type: application/json" \\
  -d '{"tokens": [[1, 2], [1, 3]], "masks": [[-100, 2], [-100, 3]], "scores": [1.0, 0.0]}'
curl --fail-with-body "${origin}/api/v1/trajectories?run=${run}&limit=1" \\
  -H "Authorization: Bearer ${shown}"`,
    },
    {
      id: "python",
      title: "Python trainer",
      scopes: "trainer",
      text: `${token ? "" : "import os\n\n"}from rolldeck.trainer import Trainer

with Trainer("${origin}", run="${run}", token=${inPython}) as trainer:
    trainer.register()
    trainer.publish_weights(weights(), step=0)
    for step, batch in enumerate(trainer.batches(), start=1):
        learn(batch.stack())
        trainer.publish_weights(weights(), step=step)`,
    },
    {
      id: "atropos",
      title: "Atropos environment",
      scopes: "env",
      text: `# unmodified; only its URL changes, and the token is the password in it
python my_environment.py serve \\
  --env.rollout_server_url "${scheme}://env:${shown}@${host}/atropos/${run}"`,
    },
  ];
}
