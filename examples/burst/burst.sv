// The address of the last byte of a burst.
module burst (
    input  logic        clk,
    input  logic        start,
    input  logic [15:0] address,
    input  logic [3:0]  beats,
    input  logic [1:0]  size,
    output logic [16:0] last
);
  always_ff @(posedge clk)
    if (start) last <= {1'b0, address} + ({13'b0, beats} << size) - 17'd1;
endmodule
