import static org.codelibs.opensearch.runner.OpenSearchRunner.newConfigs;

import org.codelibs.opensearch.runner.OpenSearchRunner;

/** One OpenSearch node with its default settings: OpenSearch DIR PORT; ends with its stdin. */
public class OpenSearch {
  public static void main(String[] args) throws Exception {
    // The runner counts its nodes from 1 and gives each the port after the one before.
    int port = Integer.parseInt(args[1]);
    OpenSearchRunner node = new OpenSearchRunner();
    node.onBuild((number, settings) -> {
      settings.put("network.host", "127.0.0.1");
      settings.put("discovery.type", "single-node");
      settings.put("http.port", port);
    });
    node.build(newConfigs().clusterName("bench").basePath(args[0]).numOfNode(1));
    System.out.println("ready " + port);
    while (System.in.read() >= 0) {}
    node.close();
    System.exit(0);
  }
}
