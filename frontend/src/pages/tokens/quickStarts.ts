/** Write the first lines of each kind of client, with this server's address and a token in them. Pure. */

type QuickStart = { id: string; title: string; scope: string; text: string };

/** Without a token of its own a line reads it from the environment. */
export function quickStarts(origin: string, token: string | null, run: string): QuickStart[] {
  const shown = token ?? "$ROLLDECK_TOKEN";
  const inPython = token ? JSON.stringify(token) : 'os.environ["ROLLDECK_TOKEN"]';
  const [scheme, host] = origin.split("://");
  return [
    {
      id: "curl",
      title: "curl",
      scope: "admin",
      text: `# a run for environments that push from elsewhere
curl -X POST ${origin}/api/runs \\
  -H "Authorization: Bearer ${shown}" -H "Content-Type: application/json" \\
  -d '{"name": "${run}", "kind": "outside", "start": true}'
curl ${origin}/api/runs/${run}/ledger -H "Authorization: Bearer ${shown}"`,
    },
    {
      id: "python",
      title: "Python trainer",
      scope: "trainer",
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
      scope: "env",
      text: `# unmodified; only its URL changes, and the token is the password in it
python my_environment.py serve \\
  --env.rollout_server_url "${scheme}://env:${shown}@${host}/atropos/${run}"`,
    },
  ];
}
