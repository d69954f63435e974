import org.apache.camel.impl.DefaultCamelContext;
import org.apache.camel.support.jsse.SSLContextParameters;

/** Sends each text of its arguments but the first to the endpoint that the first one names. */
class Send {
    public static void main(String[] arguments) throws Exception {
        try (var camel = new DefaultCamelContext()) {
            camel.getRegistry().bind("tls", new SSLContextParameters());
            camel.start();
            var template = camel.createProducerTemplate();
            for (int i = 1; i < arguments.length; i++) {
                template.sendBody(arguments[0], arguments[i]);
            }
        }
    }
}
