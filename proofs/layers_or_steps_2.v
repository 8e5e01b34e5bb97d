(* Page 23, "Layers or steps", continued: Theorem 23.2, Propositions 23.3, 23.5, 23.6.
   F is any ordered field with square roots, as the real numbers have; exp and ln are any functions
   with the four laws below. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities patterns_and_conditions logarithmic_dimension.
Import FullRank.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Names.
Variables (F : rcfType) (exp ln : F -> F).
Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Hypothesis exp_lt : forall x y, x < y -> exp x < exp y.
Hypothesis lnK : forall y, 0 < y -> exp (ln y) = y.
(* names of n tokens: of length 1, with the margin gamma *)
Variables (n d : nat) (c : 'I_n -> 'rV[F]_d) (gamma beta : F).
Hypothesis gamma_gt0 : 0 < gamma.
Hypothesis unit : forall i, dot (c i) (c i) = 1.
Hypothesis margin : forall i j, i != j -> dot (c i) (c j) <= 1 - gamma.

(* (23.1): a token that may read the tokens of S looks x up among the keys *)
Definition weight (S : {set 'I_n}) (key : 'I_n -> 'rV[F]_d) x j :=
  softmax_on exp S (fun l => beta * dot x (key l)) j.
Definition read S key (hold : 'I_n -> 'rV[F]_d) x := \sum_j weight S key x j *: hold j.
(* x is nearer to name i than to any other *)
Definition nearest x i := forall j, j != i -> norm (x - c i) < norm (x - c j).
Definition delta := n%:R * exp (- (beta * gamma / 2%:R)).

Lemma exp0 : exp 0 = 1.
Proof. by have := mulfV (lt0r_neq0 (exp_gt0 0)); rewrite -{1}(addr0 0) expD mulfK ?gt_eqF. Qed.
Lemma expN x : exp (- x) = (exp x)^-1.
Proof.
apply: (mulfI (lt0r_neq0 (exp_gt0 x))); rewrite -expD subrr exp0 mulfV //.
exact: lt0r_neq0.
Qed.
Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. by rewrite le_eqVlt => /predU1P[->|/exp_lt/ltW]. Qed.
Lemma arg_gt0 x : 1 < exp x -> 0 < x.
Proof. by rewrite !ltNge; apply: contra => /exp_le; rewrite exp0. Qed.

Lemma norm0 (x : 'rV[F]_d) : 0 <= norm x. Proof. exact: sqrtr_ge0. Qed.
Lemma norm1 i : norm (c i) = 1. Proof. by rewrite /norm sqnorm_dot unit sqrtr1. Qed.
Lemma normZ a (x : 'rV[F]_d) : 0 <= a -> norm (a *: x) = a * norm x.
Proof.
move=> a0; rewrite /norm !sqnorm_dot dotZl dotC dotZl mulrA -expr2 sqrtrM ?sqr_ge0 //.
by rewrite sqrtr_sqr ger0_norm.
Qed.
Lemma norm_sum (x : 'I_n -> 'rV[F]_d) : norm (\sum_j x j) <= \sum_j norm (x j).
Proof.
elim/big_ind2: _ => // [|x1 y1 x2 y2 le1 le2].
  by rewrite /norm sqnorm_dot (_ : dot 0 0 = 0) ?sqrtr0 //; apply: big1 => k _; rewrite mxE mul0r.
by apply: le_trans (norm_tri _ _) (ler_add _ _).
Qed.
Lemma norm_mid (x y z : 'rV[F]_d) : norm (x - z) <= norm (x - y) + norm (y - z).
Proof. by rewrite -{1}(subrK y x) -addrA norm_tri. Qed.
Lemma dotN (x y : 'rV[F]_d) : dot (- x) y = - dot x y.
Proof. by rewrite -scaleN1r dotZl mulN1r. Qed.

(* two different names: gamma <= 2, and they are at least gamma apart *)
Lemma gamma_le2 (i j : 'I_n) : i != j -> gamma <= 2%:R.
Proof.
move=> ij; have := cauchy (- c i) (c j); rewrite normN !norm1 dotN mulr1.
rewrite ler_oppl => low; have := le_trans low (margin ij).
by rewrite ler_subr_addr -ler_subr_addl opprK.
Qed.
Lemma apart (i j : 'I_n) : i != j -> gamma <= norm (c i - c j).
Proof.
move=> ij; rewrite -ler_sqr ?nnegrE ?norm0 ?(ltW gamma_gt0) // norm_sq.
rewrite dotDl !dotN !(dotC _ (_ - _)) !dotDl !dotN !unit (dotC (c j)) opprB addrC.
apply: le_trans (_ : 2%:R * gamma <= _).
  by rewrite expr2 ler_pmul2r // (gamma_le2 ij).
have m := margin ij; rewrite mulr_natl mulr2n.
have half : gamma <= 1 - dot (c i) (c j) by rewrite ler_subr_addr -ler_subr_addl.
by apply: le_trans (ler_add half half) _; rewrite addrC.
Qed.
Lemma nearest_of x i r : norm (x - c i) <= r -> 2%:R * r < gamma -> nearest x i.
Proof.
move=> xr rg j ji; rewrite eq_sym in ji.
rewrite (le_lt_trans xr) // -(ltr_add2l r) -mulr2n -mulr_natl (lt_le_trans rg) //.
apply: le_trans (apart ji) _; apply: le_trans (norm_mid _ x _) _.
by rewrite ler_add2r -normN opprB.
Qed.

Lemma dist_sq x i : norm (x - c i) ^+ 2 = dot x x + 1 - 2%:R * dot x (c i).
Proof.
rewrite norm_sq dotDl dotN !(dotC _ (x - c i)) !dotDl !dotN unit (dotC (c i) x).
by ident.
Qed.
Lemma nearer x i j : norm (x - c i) <= norm (x - c j) -> dot x (c j) <= dot x (c i).
Proof.
rewrite -ler_sqr ?nnegrE ?norm0 // !dist_sq ler_add2l ler_opp2 ler_pmul2l //.
by rewrite ltr0n.
Qed.
Lemma dot_read S key (hold : 'I_n -> 'rV[F]_d) x z :
  dot (read S key hold x) z = \sum_j weight S key x j * dot (hold j) z.
Proof.
have dot0 : dot 0 z = 0 by apply: big1 => k _; rewrite mxE mul0r.
rewrite /read (big_morph (fun y => dot y z) (fun x y => dotDl x y z) dot0).
by apply: eq_bigr => j _; rewrite dotZl.
Qed.

(* Step 2: all wrong tokens together get little weight if the right key leads. *)
Section Look.
Variables (S : {set 'I_n}) (key : 'I_n -> 'rV[F]_d) (x : 'rV[F]_d) (a : 'I_n).
Hypotheses (aS : a \in S) (beta_ge0 : 0 <= beta).
Local Notation w := (weight S key x).
Lemma sum_gt0 : 0 < \sum_(l in S) exp (beta * dot x (key l)).
Proof. by rewrite (bigD1 a) //= ltr_paddr // sumr_ge0 // => l _; apply: ltW. Qed.
Lemma weight_ge0 j : 0 <= w j.
Proof. by rewrite /weight /softmax_on; case: ifP => // _; rewrite divr_ge0 ?ltW ?sum_gt0. Qed.
Lemma weight_sum : \sum_j w j = 1.
Proof. by rewrite -big_mkcond -mulr_suml mulfV // gt_eqF ?sum_gt0. Qed.
Definition wrong := \sum_(j | j != a) w j.
Lemma wrong_ge0 : 0 <= wrong. Proof. by apply: sumr_ge0 => j _; apply: weight_ge0. Qed.
Lemma weight_right : w a = 1 - wrong.
Proof. by rewrite -weight_sum (bigD1 a) //= addrK. Qed.
Lemma wrong_le g : (forall j, j \in S -> j != a -> dot x (key j) + g <= dot x (key a)) ->
  wrong <= n.-1%:R * exp (- (beta * g)).
Proof.
move=> lead; apply: le_trans (_ : \sum_(j | j != a) exp (- (beta * g)) <= _); last first.
  by rewrite sumr_const (eq_card (B := predC1 a)) ?cardC1 ?card_ord ?mulr_natl.
apply: ler_sum => j ja; rewrite /weight /softmax_on; case: ifP => [jS|_]; last exact: ltW.
rewrite ler_pdivr_mulr ?sum_gt0 //.
apply: le_trans (_ : exp (- (beta * g)) * exp (beta * dot x (key a)) <= _).
  by rewrite -expD exp_le // addrC -mulrBr ler_wpmul2l // ler_subr_addr lead.
by rewrite ler_pmul2l // (bigD1 a) //= ler_addl sumr_ge0 // => l _; apply: ltW.
Qed.
(* Step 3: what is read *)
Lemma read_close (hold : 'I_n -> 'rV[F]_d) (v : 'I_n -> 'I_n) e :
  (forall j, norm (hold j - c (v j)) <= e) ->
  norm (read S key hold x - c (v a)) <= e + 2%:R * wrong.
Proof.
move=> close; have -> : read S key hold x - c (v a) = \sum_j w j *: (hold j - c (v a)).
  rewrite -[X in _ - X]scale1r -weight_sum scaler_suml -sumrB.
  by apply: eq_bigr => j _; rewrite scalerBr.
apply: le_trans (norm_sum _) _.
apply: le_trans (_ : \sum_j (w j * e + (if j != a then w j * 2%:R else 0)) <= _); last first.
  rewrite big_split /= -mulr_suml weight_sum mul1r -big_mkcond -mulr_suml.
  by rewrite [2%:R * _]mulrC.
apply: ler_sum => j _; rewrite normZ ?weight_ge0 //; case: (altP eqP) => [->|_].
  by rewrite addr0 ler_wpmul2l ?weight_ge0.
rewrite -mulrDr ler_wpmul2l ?weight_ge0 //; apply: le_trans (norm_mid _ (c (v j)) _) _.
apply: ler_add => //; apply: le_trans (norm_tri _ _) _.
by rewrite normN !norm1 -mulr2n.
Qed.
Lemma read_short hold : (forall j, norm (hold j) <= 1) -> norm (read S key hold x) <= 1.
Proof.
move=> short; apply: le_trans (norm_sum _) _; rewrite -weight_sum; apply: ler_sum => j _.
by rewrite normZ ?weight_ge0 // -[X in _ <= X]mulr1 ler_wpmul2l ?weight_ge0.
Qed.
(* keys near to different names, a query near to the name of key a *)
Lemma wrong_delta (kap : 'I_n -> 'I_n) e : injective kap -> e <= gamma / 8%:R ->
  (forall j, norm (key j - c (kap j)) <= e) -> (forall j, norm (key j) <= 1) ->
  norm (x - c (kap a)) <= e -> wrong <= delta.
Proof.
move=> inj e8 near short xe.
have move_ (y y' z : 'rV[F]_d) : norm (y - y') <= e -> norm z <= 1 -> dot y z <= dot y' z + e.
  move=> ye z1; rewrite -ler_subl_addl -dotN -dotDl; apply: le_trans (cauchy _ _) _.
  by rewrite -[e]mulr1 ler_pmul ?norm0.
have sym (y z : 'rV[F]_d) : norm (y - z) = norm (z - y) by rewrite -normN opprB.
apply: le_trans (wrong_le (g := gamma / 2%:R) _) _ => [j jS ja|]; last first.
  by rewrite /delta -[beta * gamma / _]mulrA (ler_wpmul2r (ltW (exp_gt0 _))) // ler_nat leq_pred.
have up : dot x (key j) <= 1 - gamma + e + e.
  apply: le_trans (move_ _ _ _ xe (short j)) _; rewrite ler_add2r dotC.
  apply: le_trans (move_ _ _ _ (near j) _) _; rewrite ?norm1 // ler_add2r margin //.
  by apply: contra ja => /eqP/inj ->.
have down : 1 <= dot x (key a) + e + e.
  rewrite -(unit (kap a)); apply: le_trans (_ : dot (key a) (c (kap a)) + e <= _).
    by apply: move_; rewrite ?norm1 // sym.
  by rewrite ler_add2r dotC; apply: move_; rewrite // sym.
have e4 : e + e + (e + e) <= gamma / 2%:R.
  have -> : gamma / 2%:R = gamma / 8%:R + gamma / 8%:R + (gamma / 8%:R + gamma / 8%:R).
    rewrite -!mulrDr; congr (_ * _); rewrite -!mulr2n -mulrnA -[8%:R^-1 *+ _]mulr_natr.
    apply: (mulfI (x := 8%:R)); rewrite ?pnatr_eq0 // mulVKf ?pnatr_eq0 //.
    by rewrite -[8%:R]/((4 * 2)%N%:R) natrM mulfK ?pnatr_eq0.
  by rewrite !ler_add.
have half : gamma = gamma / 2%:R + gamma / 2%:R.
  by rewrite -mulr2n -mulr_natr mulfVK ?pnatr_eq0.
apply: le_trans (_ : 1 - (e + e) <= _); last by rewrite ler_subl_addr addrA.
apply: le_trans (ler_add up (lexx _)) _.
rewrite {1}half opprD !addrA addrAC -addrA; move: e4; set g := gamma / 2%:R => e4.
rewrite -subr_ge0 (_ : _ - _ = g - (e + e + (e + e))) ?subr_ge0 //.
by ident.
Qed.
End Look.

(* Theorem 23.2. Token i may read the tokens of S i. *)
Lemma delta_ge0 : 0 <= delta. Proof. by rewrite mulr_ge0 ?ler0n ?ltW. Qed.
Lemma norm_same (x : 'rV[F]_d) : norm (x - x) = 0.
Proof. by rewrite subrr -(scale0r 0) normZ // mul0r. Qed.
(* Step 4: (23.2) makes the errors small *)
Lemma enough L : (1 < n)%N -> (0 < L)%N -> 2%:R / gamma * ln (16%:R * L%:R * n%:R / gamma) <= beta ->
  0 <= beta /\ 2%:R * L%:R * delta <= gamma / 8%:R.
Proof.
move=> n1 L0 le.
have g2 : gamma <= 2%:R by apply: (@gamma_le2 (Ordinal (ltnW n1)) (Ordinal n1)).
set y := 16%:R * L%:R * n%:R / gamma in le.
have y1 : 1 < y.
  rewrite ltr_pdivl_mulr // mul1r (le_lt_trans g2) // -!natrM ltr_nat.
  by apply: leq_trans (_ : 16 * 1 * 1 <= _)%N; rewrite ?leq_mul // ltnW.
have y0 := lt_trans ltr01 y1.
have le' : ln y <= beta * gamma / 2%:R.
  have -> : ln y = 2%:R / gamma * ln y * (gamma / 2%:R).
    by rewrite mulrAC mulrA divfK ?gt_eqF // mulfV ?mul1r ?pnatr_eq0.
  by rewrite -[beta * _ / _]mulrA ler_wpmul2r // divr_ge0 ?ler0n ?(ltW gamma_gt0).
have ey : y <= exp (beta * gamma / 2%:R) by rewrite -{1}(lnK y0) exp_le.
have b0 : 0 < beta.
  have : 0 < beta * gamma / 2%:R by apply: arg_gt0; apply: lt_le_trans ey.
  by rewrite pmulr_lgt0 ?invr_gt0 ?ltr0n // pmulr_lgt0.
split; first exact: ltW.
rewrite /delta expN mulrA ler_pdivr_mulr //; apply: le_trans (ler_wpmul2l _ ey); last first.
  by rewrite divr_ge0 ?ler0n ?ltW.
have -> : gamma / 8%:R * y = 16%:R * L%:R * n%:R / 8%:R.
  by rewrite mulrC /y mulrA divfK // gt_eqF.
rewrite ler_pdivl_mulr ?ltr0n // -!natrM ler_nat [X in (X <= _)%N]mulnAC [(2 * L * 8)%N]mulnAC.
exact: leqnn.
Qed.

Section Ladder.
Variables (f : 'I_n -> 'I_n) (S : 'I_n -> {set 'I_n}) (k : nat).
(* all may be read, or f i <= i and the mask is causal *)
Hypothesis sees : (forall i, S i = setT) \/
  (forall i, f i <= i)%N /\ forall i, S i = [set j : 'I_n | (j <= i)%N].
(* own name, pointer, result *)
Record state := State { own : 'I_n -> 'rV[F]_d; ptr : 'I_n -> 'rV[F]_d; res : 'I_n -> 'rV[F]_d }.
(* is 2^l in the sum of k - 1? *)
Definition hop l := odd (k.-1 %/ 2 ^ l).
(* keep; double; hop or stay. Layer l + 1 of the page is layer l here. *)
Definition layer l (s : state) := State
  (fun i => read (S i) (own s) (own s) (own s i))
  (fun i => read (S i) (own s) (ptr s) (ptr s i))
  (fun i => if hop l then read (S i) (own s) (ptr s) (res s i)
            else read (S i) (own s) (res s) (own s i)).
Fixpoint ladder l := if l is l'.+1 then layer l' (ladder l') else State c (c \o f) (c \o f).
Local Notation reached := (fun l => (k.-1 %% 2 ^ l).+1).

Lemma sees_iter i t : iter t f i \in S i.
Proof.
case: sees => [->|[back ->]]; rewrite inE //; elim: t => //= t; exact: leq_trans.
Qed.
Lemma bits l : (k.-1 %% 2 ^ l.+1 = hop l * 2 ^ l + k.-1 %% 2 ^ l)%N.
Proof.
rewrite {1}(divn_eq k.-1 (2 ^ l)) {1}(divn_eq (k.-1 %/ 2 ^ l) 2) modn2 -/(hop l).
rewrite mulnDl -mulnA -expnS -addnA modnMDl modn_small // expnS.
have := ltn_pmod k.-1 (expn_gt0 2 l : 0 < 2 ^ l)%N.
by case: (hop l); rewrite ?mul1n ?mul0n; arith.
Qed.
(* Steps 1 and 4 *)
Lemma climb l : 0 <= beta -> 2%:R * l%:R * delta <= gamma / 8%:R -> forall i,
  [/\ norm (own (ladder l) i) <= 1, norm (own (ladder l) i - c i) <= 2%:R * l%:R * delta,
      norm (ptr (ladder l) i - c (iter (2 ^ l) f i)) <= 2%:R * l%:R * delta &
      norm (res (ladder l) i - c (iter (reached l) f i)) <= 2%:R * l%:R * delta].
Proof.
have zero x : norm (x - x : 'rV[F]_d) = 0.
  by rewrite subrr -(scale0r 0) normZ // mul0r.
move=> b0; elim: l => [|l IH] small i.
  by rewrite mulr0 mul0r /= modn1 !zero norm1.
have d0 : 0 <= delta by rewrite mulr_ge0 ?ler0n ?ltW.
have eS : 2%:R * l.+1%:R * delta = 2%:R * l%:R * delta + 2%:R * delta.
  by rewrite -[l.+1]addn1 natrD mulrDr mulr1 mulrDl.
have small' : 2%:R * l%:R * delta <= gamma / 8%:R.
  by apply: le_trans small; rewrite eS ler_addl mulr_ge0 ?ler0n.
have {IH} IH := IH small'; set s := ladder l in IH *.
have go (v : 'I_n -> 'I_n) hold x a : a \in S i ->
    (forall j, norm (hold j - c (v j)) <= 2%:R * l%:R * delta) ->
    norm (x - c a) <= 2%:R * l%:R * delta ->
    norm (read (S i) (own s) hold x - c (v a)) <= 2%:R * l.+1%:R * delta.
  move=> aS near xa; apply: le_trans (read_close _ _ aS near) _; rewrite eS ler_add2l ler_wpmul2l ?ler0n //.
  apply: (wrong_delta aS b0 (kap := id)) xa => // j; by case: (IH j).
have iS : i \in S i by rewrite (sees_iter i 0).
have ow j : norm (own s j - c j) <= 2%:R * l%:R * delta by case: (IH j).
have pt j : norm (ptr s j - c (iter (2 ^ l) f j)) <= 2%:R * l%:R * delta by case: (IH j).
have rs j : norm (res s j - c (iter (reached l) f j)) <= 2%:R * l%:R * delta by case: (IH j).
split=> /=.
- by apply: (read_short _ _ iS) => j; case: (IH j).
- exact: (go id).
- by rewrite expnS mul2n -addnn iterD; apply: (go (iter (2 ^ l) f)) => //; apply: sees_iter.
rewrite -iterS bits; case: (hop l); last by apply: (go (iter (reached l) f)).
by rewrite mul1n -addnS iterD; apply: (go (iter (2 ^ l) f)) => //; apply: sees_iter.
Qed.

(* Theorem 23.2 (Doubling). L is the least number with k <= 2^L. Under (23.2) the result of every
   token is within 2 L delta <= gamma / 8 of the name of f^k i, which is the nearest. *)
Theorem hops : (1 < n)%N -> (1 < k)%N -> let L := up_log 2 k in
  2%:R / gamma * ln (16%:R * L%:R * n%:R / gamma) <= beta ->
  2%:R * L%:R * delta <= gamma / 8%:R /\ forall i,
    norm (res (ladder L) i - c (iter k f i)) <= 2%:R * L%:R * delta /\
    nearest (res (ladder L) i) (iter k f i).
Proof.
move=> n1 k1 L le; have L0 : (0 < L)%N by rewrite up_log_gt0.
have [b0 small] := enough n1 L0 le; split=> // i.
have kL : (k.-1 < 2 ^ L)%N by rewrite -ltnS (ltn_predK k1) ltnS up_logP.
have [_ _ _] := climb b0 small i; rewrite (modn_small kL) (ltn_predK k1) => near.
split=> //; apply: nearest_of near _; apply: le_lt_trans (ler_wpmul2l (ler0n _ 2) small) _.
by rewrite mulrCA gtr_pmulr // ltr_pdivr_mulr ?ltr0n // mul1r ltr_nat.
Qed.
(* Proposition 23.5 (Powers). F_map is the 0/1 matrix of f, double l the attention matrix of the
   doubling head: each row differs from that of F_map^(2^l) by at most 2 delta. *)
Definition F_map : 'M[F]_n := \matrix_(i, j) (f i == j)%:R.
Definition double l : 'M[F]_n :=
  \matrix_(i, j) weight (S i) (own (ladder l)) (ptr (ladder l) i) j.
Lemma F_power t i j : iter t (mulmx F_map) 1%:M i j = (iter t f i == j)%:R.
Proof.
elim: t i => [|t IH] i; first by rewrite mxE.
rewrite [in RHS]iterSr iterS mxE (bigD1 (f i)) //= big1 ?addr0 => [|l li].
  by rewrite mxE eqxx mul1r IH.
by rewrite mxE eq_sym (negbTE li) mul0r.
Qed.
Theorem powers : (1 < n)%N -> (1 < k)%N -> let L := up_log 2 k in
  2%:R / gamma * ln (16%:R * L%:R * n%:R / gamma) <= beta -> forall l i, (l < L)%N ->
  \sum_j `|double l i j - iter (2 ^ l) (mulmx F_map) 1%:M i j| <= 2%:R * delta.
Proof.
move=> n1 k1 L le l i lL; have [b0 small] := enough n1 (leq_ltn_trans (leq0n l) lL) le.
have small' : 2%:R * l%:R * delta <= gamma / 8%:R.
  apply: le_trans small; rewrite ler_wpmul2r ?delta_ge0 // ler_wpmul2l ?ler0n // ler_nat ltnW //.
have IH := climb b0 small'; set a := iter (2 ^ l) f i; have aS : a \in S i := sees_iter i _.
have D : wrong (S i) (own (ladder l)) (ptr (ladder l) i) a <= delta.
  apply: (wrong_delta aS b0 (kap := id) _ small') => // [j|j|].
  - by case: (IH j).
  - by case: (IH j).
  by case: (IH i).
rewrite (bigD1 a) //= !mxE F_power eqxx weight_right // addrAC subrr add0r normrN.
rewrite ger0_norm ?wrong_ge0 // mulr_natl mulr2n ler_add //; apply: le_trans D.
rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => j ja.
by rewrite !mxE F_power eq_sym (negbTE ja) subr0 ger0_norm // (weight_ge0 _ _ aS).
Qed.
End Ladder.

(* Proposition 23.6 (Looking back). f is a permutation, all tokens may be read. *)
Section Back.
Variable f : 'I_n -> 'I_n.
Hypothesis f_inj : injective f.
Definition look_back (s : ('I_n -> 'rV[F]_d) * ('I_n -> 'rV[F]_d)) :=
  (fun i => read setT s.2 s.1 (s.1 i), fun i => read setT s.1 s.2 (s.2 i)).
(* ahead names and back names after l layers *)
Definition ahead_back l := iter l look_back (c \o f, c).
Local Notation g := (invF f_inj).
Local Notation b := (fun l => (3 ^ l)./2).
Lemma three l : (3 ^ l = (b l + b l).+1)%N.
Proof. by rewrite -{1}(odd_double_half (3 ^ l)) oddX orbT -addnn. Qed.
Lemma b_next l : (b l.+1 = 3 * b l + 1)%N.
Proof. by have := three l; have := three l.+1; rewrite expnS; move: (3 ^ l)%N (b l) (b l.+1); arith. Qed.
Lemma iter_fg t x : iter t f (iter t g x) = x.
Proof. by elim: t x => // t IH x; rewrite iterSr /= f_invF IH. Qed.
Lemma iter_gf t x : iter t g (iter t f x) = x.
Proof. by elim: t x => // t IH x; rewrite iterSr /= invF_f IH. Qed.
Lemma iter_inj (h : 'I_n -> 'I_n) t : injective h -> injective (iter t h).
Proof. by move=> inj; elim: t => // t IH x y /inj/IH. Qed.
Lemma climb_back l : 0 <= beta -> 2%:R * l%:R * delta <= gamma / 8%:R -> forall i,
  [/\ norm ((ahead_back l).1 i) <= 1, norm ((ahead_back l).2 i) <= 1,
      norm ((ahead_back l).1 i - c (iter (b l).+1 f i)) <= 2%:R * l%:R * delta &
      norm ((ahead_back l).2 i - c (iter (b l) g i)) <= 2%:R * l%:R * delta].
Proof.
move=> b0; elim: l => [|l IH] small i.
  by rewrite mulr0 mul0r /= !norm_same !norm1.
have eS : 2%:R * l.+1%:R * delta = 2%:R * l%:R * delta + 2%:R * delta.
  by rewrite -[l.+1]addn1 natrD mulrDr mulr1 mulrDl.
have small' : 2%:R * l%:R * delta <= gamma / 8%:R.
  by apply: le_trans small; rewrite eS ler_addl mulr_ge0 ?ler0n ?delta_ge0.
have {IH} IH := IH small'; rewrite /ahead_back iterS -/(ahead_back l); set s := ahead_back l in IH *.
have g_inj : injective g by apply: can_inj (f_invF f_inj).
have A1 j : norm (s.1 j) <= 1 by case: (IH j).
have B1 j : norm (s.2 j) <= 1 by case: (IH j).
have Ac j : norm (s.1 j - c (iter (b l).+1 f j)) <= 2%:R * l%:R * delta by case: (IH j).
have Bc j : norm (s.2 j - c (iter (b l) g j)) <= 2%:R * l%:R * delta by case: (IH j).
have go key hold (kap v : 'I_n -> 'I_n) x a : injective kap ->
    (forall j, norm (key j) <= 1) -> (forall j, norm (key j - c (kap j)) <= 2%:R * l%:R * delta) ->
    (forall j, norm (hold j - c (v j)) <= 2%:R * l%:R * delta) ->
    norm (x - c (kap a)) <= 2%:R * l%:R * delta ->
    norm (read setT key hold x - c (v a)) <= 2%:R * l.+1%:R * delta.
  move=> inj k1 kc hc xa; have aS := in_setT a; apply: le_trans (read_close _ _ aS hc) _.
  rewrite eS ler_add2l ler_wpmul2l ?ler0n //; exact: (wrong_delta aS b0 inj small' kc k1 xa).
split=> /=; try by apply: (read_short _ _ (in_setT i)).
  rewrite -[f (iter _ f i)]iterS.
  have -> : iter (b l.+1).+1 f i = iter (b l).+1 f (iter ((b l).+1 + b l) f i).
    by rewrite -iterD b_next; congr (iter _ f i); arith.
  apply: (go _ _ (iter (b l) g) (iter (b l).+1 f)) => //; first exact: iter_inj.
  by rewrite addnC iterD iter_gf.
have -> : iter (b l.+1) g i = iter (b l) g (iter ((b l).+1 + b l) g i).
  by rewrite -iterD b_next; congr (iter _ g i); arith.
apply: (go _ _ (iter (b l).+1 f) (iter (b l) g)) => //; first exact: iter_inj.
by rewrite iterD iter_fg.
Qed.
(* The ahead name ends within 2 L delta <= gamma / 8 of the name of f^k i, k = (3^L + 1) / 2. *)
Theorem back L : (1 < n)%N -> (0 < L)%N ->
  2%:R / gamma * ln (16%:R * L%:R * n%:R / gamma) <= beta ->
  2%:R * L%:R * delta <= gamma / 8%:R /\
  forall i, norm ((ahead_back L).1 i - c (iter ((3 ^ L + 1) %/ 2) f i)) <= 2%:R * L%:R * delta.
Proof.
move=> n1 L0 le; have [b0 small] := enough n1 L0 le; split=> // i.
have [_ _] := climb_back b0 small i; suff -> : ((3 ^ L + 1) %/ 2 = (b L).+1)%N by [].
have e : (3 ^ L + 1 = (b L).+1.*2)%N.
  by rewrite -addnn; have := three L; move: (3 ^ L)%N (b L); arith.
by rewrite e divn2 doubleK.
Qed.
End Back.

(* Proposition 23.3 (Steps). w t is the name written in step t, w 0 that of the start. Each step
   looks up w t among all tokens, and writes a name than which none is nearer to what it reads. *)
Theorem steps (f : 'I_n -> 'I_n) (w : nat -> 'I_n) : 1 / gamma * ln (4%:R * n%:R / gamma) <= beta ->
  (forall t j, let o := read setT c (c \o f) (c (w t)) in
     norm (o - c (w t.+1)) <= norm (o - c j)) ->
  forall k, w k = iter k f (w 0%N).
Proof.
move=> le near; elim=> [|k IH] //=; rewrite -IH; apply/eqP; apply: contraT => ne.
have g2 := gamma_le2 ne; have n0 : (0 < n)%N by case: (w k) => i /(leq_ltn_trans (leq0n i)).
set y := 4%:R * n%:R / gamma in le.
have y1 : 1 < y.
  rewrite ltr_pdivl_mulr // mul1r (le_lt_trans g2) // -natrM ltr_nat.
  by apply: leq_trans (_ : 4 * 1 <= _)%N; rewrite ?leq_mul.
have y0 := lt_trans ltr01 y1.
have le' : ln y <= beta * gamma.
  by apply: le_trans (ler_wpmul2r (ltW gamma_gt0) le); rewrite mul1r mulrC mulVKf ?gt_eqF.
have ey : y <= exp (beta * gamma) by rewrite -{1}(lnK y0) exp_le.
have b0 : 0 <= beta.
  have : 0 < beta * gamma by apply: arg_gt0; apply: lt_le_trans ey.
  by rewrite pmulr_lgt0 // => /ltW.
have wS := in_setT (w k).
set e := wrong setT c (c (w k)) (w k); set a := f (w k) in ne *; set b := w k.+1 in ne *.
have e0 : 0 <= e := wrong_ge0 _ _ wS.
(* the other tokens together get less than gamma / 4 *)
have e4 : 4%:R * e < gamma.
  have lead j : j \in setT -> j != w k -> dot (c (w k)) (c j) + gamma <= dot (c (w k)) (c (w k)).
    by move=> _ jw; rewrite unit -ler_subr_addr margin // eq_sym.
  apply: le_lt_trans (ler_wpmul2l (ler0n _ 4) (wrong_le wS b0 lead)) _.
  rewrite expN mulrA ltr_pdivr_mulr //; apply: lt_le_trans (ler_wpmul2l (ltW gamma_gt0) ey).
  by rewrite /y [gamma * _]mulrC divfK ?gt_eqF // -!natrM ltr_nat ltn_pmul2l // ltn_predL.
have low i j : -1 <= dot (c i) (c j).
  by have := cauchy (- c i) (c j); rewrite normN !norm1 dotN mulr1 ler_oppl.
have up i j : dot (c i) (c j) <= 1 by have := cauchy (c i) (c j); rewrite !norm1 mulr1.
(* the name that is right has a larger inner product with what is read than any other *)
set o := read setT c (c \o f) (c (w k)); set W := weight setT c (c (w k)).
have W0 j : 0 <= W j := weight_ge0 _ _ wS j.
have oE : dot o (c a) - dot o (c b) = \sum_j W j * (dot (c (f j)) (c a) - dot (c (f j)) (c b)).
  by rewrite !dot_read -sumrB; apply: eq_bigr => j _; rewrite mulrBr.
have : dot o (c a) - dot o (c b) <= 0 by rewrite subr_le0; apply: nearer; apply: near.
rewrite oE (bigD1 (w k)) //= {1}/W weight_right // -/e -/a unit leNgt => /negP[].
have rest : - (2%:R * e) <= \sum_(j | j != w k) W j * (dot (c (f j)) (c a) - dot (c (f j)) (c b)).
  rewrite /e /wrong mulr_sumr -sumrN; apply: ler_sum => j _.
  rewrite -mulNr [X in _ <= X]mulrC ler_wpmul2r //.
  by rewrite -[2%N]/(1 + 1)%N natrD opprD ler_sub.
have gap : gamma <= 1 - dot (c a) (c b).
  by rewrite ler_subr_addr -ler_subr_addl margin // eq_sym.
have e1 : 0 <= 1 - e by have := W0 (w k); rewrite /W weight_right.
apply: lt_le_trans (ler_add (ler_wpmul2l e1 gap) rest).
rewrite subr_gt0 mulrBl mul1r ltr_subr_addr; apply: le_lt_trans e4.
rewrite -[4%N]/(2 + 2)%N natrD mulrDl ler_add // [X in X <= _]mulrC ler_wpmul2r //.
Qed.
End Names.

(* The hypotheses on names hold: two opposite ones have the margin 2. *)
Example names_met (F : rcfType) (c := fun i : 'I_2 => const_mx ((-1) ^+ i) : 'rV[F]_1) :
  (forall i, dot (c i) (c i) = 1) /\ forall i j, i != j -> dot (c i) (c j) <= 1 - 2%:R.
Proof.
have dotE i j : dot (c i) (c j) = (-1) ^+ (i + j) by rewrite /dot big_ord1 !mxE exprD.
split=> [i|i j ij]; rewrite dotE; first by rewrite addnn -signr_odd odd_double.
rewrite (_ : (i + j = 1)%N) ?expr1; last by case: i j ij => [[|[|i]] ?] [[|[|j]] ?].
by rewrite -[2%N]/(1 + 1)%N natrD opprD addrA subrr add0r.
Qed.
