// The eight problems of tasks.py as classes; +case=K chooses one, +n=N the number of calls. Values
// are printed in the order of the names.
class Implication;
  rand bit s; rand bit [7:0] d;
  constraint c { s -> d == 0; }
endclass
class Ones8;
  rand bit [7:0] x;
  constraint c { $countones(x) == 4; }
endclass
class Ones32;
  rand bit [31:0] x;
  constraint c { $countones(x) == 4; }
endclass
class SumOfTwo;
  rand bit [5:0] a, b;
  constraint c { 7'(a) + 7'(b) <= 50; }
endclass
class SumOfThree;
  rand bit [6:0] x, y, z;
  constraint c { 9'(x) + 9'(y) + 9'(z) == 100; }
endclass
class Ordered;
  rand bit [7:0] a, b, c, d;
  constraint o { a < b; b < c; c < d; }
endclass
class Bus;
  rand bit [15:0] addr; rand bit [3:0] len; rand bit [1:0] burst; rand bit write;
  rand bit [7:0] strobe;
  constraint r {
    len >= 1; burst <= 2; addr % 4 == 0;
    (burst == 2) -> (len inside {2, 4, 8});
    17'(addr) + 17'(len) * 4 <= 17'h10000;
    !write -> strobe == 0;
    write -> strobe != 0;
  }
endclass
class Timer;
  int unsigned limit = 1000;
  rand bit [15:0] period; rand bit [7:0] prescale; rand bit [1:0] level; rand bit enable;
  constraint r {
    enable -> period >= 16'(prescale);
    period < limit[15:0];
    (level == 3) -> prescale inside {[1:15]};
    !enable -> period == 0;
    prescale != 0;
  }
endclass

module t;
  int n, k;
  initial begin
    if (!$value$plusargs("n=%d", n)) n = 3;
    if (!$value$plusargs("case=%d", k)) k = 0;
    case (k)
      0: begin Implication o = new; repeat (n) begin
        void'(o.randomize()); $display("row %0d %0d", o.d, o.s); end end
      1: begin Ones8 o = new; repeat (n) begin void'(o.randomize()); $display("row %0d", o.x); end end
      2: begin Ones32 o = new; repeat (n) begin void'(o.randomize()); $display("row %0d", o.x); end end
      3: begin SumOfTwo o = new; repeat (n) begin
        void'(o.randomize()); $display("row %0d %0d", o.a, o.b); end end
      4: begin SumOfThree o = new; repeat (n) begin
        void'(o.randomize()); $display("row %0d %0d %0d", o.x, o.y, o.z); end end
      5: begin Ordered o = new; repeat (n) begin
        void'(o.randomize()); $display("row %0d %0d %0d %0d", o.a, o.b, o.c, o.d); end end
      6: begin Bus o = new; repeat (n) begin
        void'(o.randomize());
        $display("row %0d %0d %0d %0d %0d", o.addr, o.burst, o.len, o.strobe, o.write); end end
      default: begin Timer o = new; repeat (n) begin
        void'(o.randomize());
        $display("row %0d %0d %0d %0d", o.enable, o.level, o.period, o.prescale); end end
    endcase
    $finish;
  end
endmodule
